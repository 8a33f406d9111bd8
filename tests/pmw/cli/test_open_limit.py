"""``pmw open`` on a domain of more cells than an array can hold."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from queries import Domain, IntegerAttribute, save_schema

Run = Callable[..., Result]
OPEN = ("open", "wide.pmw", "--data", "table.csv", "--schema", "wide.toml", "--epsilon", "1")


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Write a table of a few records over 16,777,217 cells, and return its folder."""
    domain = Domain((IntegerAttribute("a", 0, 24_928), IntegerAttribute("b", 0, 672)))
    save_schema(domain, tmp_path / "wide.toml")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n" * 200)
    return tmp_path


@pytest.mark.parametrize("choice", [("--test", "query"), ("--model", "dense")])
def test_a_dense_model_is_refused_before_anything_is_allocated_or_made(
    wide: Path, run: Run, choice: tuple[str, str]
) -> None:
    assert run(*OPEN, *choice).exit_code == 1  # what is imported late is allocated now
    tracemalloc.start()
    result = run(*OPEN, *choice)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "Error: the domain has 16,777,217 cells; a dense model holds at most 16,777,216: "
        "test whole marginals on a graphical one, or declare fewer attributes or wider cells\n"
    )
    assert peak < 5 * 10**7  # an array would take 134 MB
    assert sorted(path.name for path in wide.iterdir()) == ["table.csv", "wide.toml"]


def test_it_opens_where_marginals_are_tested_without_an_array_of_its_cells(wide: Path, run: Run) -> None:
    tracemalloc.start()
    result = run(*OPEN, "--json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["version"] == 0
    assert peak < 2 * 10**8
    answer = run("ask", "wide.pmw", "a <= 1 AND b <= 500", "--json")
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["count"] >= 0
