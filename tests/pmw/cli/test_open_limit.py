"""``pmw open`` on a domain that the model cannot hold."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from queries import Domain, IntegerAttribute, save_schema

Run = Callable[..., Result]


def test_a_domain_beyond_the_limit_is_refused_before_anything_is_allocated_or_made(
    tmp_path: Path, run: Run
) -> None:
    domain = Domain((IntegerAttribute("a", 0, 14_040), IntegerAttribute("b", 0, 7_121)))
    save_schema(domain, tmp_path / "wide.toml")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    command = ("open", "wide.pmw", "--data", "table.csv", "--schema", "wide.toml", "--epsilon", "1")
    assert run(*command).exit_code == 1  # what is imported late is allocated now
    tracemalloc.start()
    result = run(*command)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "Error: the domain has 100,000,002 cells; a dense model holds at most 100,000,000: "
        "declare fewer attributes or wider cells\n"
    )
    assert peak < 5 * 10**7  # an array would take 800 MB
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv", "wide.toml"]
