"""A study whose table is too large to be measured whole, so that tests are left to be paid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

from queries import CategoricalAttribute, Domain, IntegerAttribute, save_schema


@pytest.fixture
def yearly_study(run: Callable[..., Result], frame: pd.DataFrame, tmp_path: Path) -> Path:
    """Open a session over single years, and return its path."""
    regions = ("north", "east", "south", "west")
    domain = Domain(
        (
            IntegerAttribute("age", 20, 59),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("region", regions, other=True),
            CategoricalAttribute("member", (True, False)),
        ),
        name="people",
    )
    frame.to_csv(tmp_path / "yearly.csv", index=False)
    save_schema(domain, tmp_path / "yearly.toml")
    table = ("--data", "yearly.csv", "--schema", "yearly.toml", "--epsilon", "1", "--delta", "1e-9")
    result = run("open", "study.pmw", *table)
    assert result.exit_code == 0, result.output
    return tmp_path / "study.pmw"
