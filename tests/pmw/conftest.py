"""Small tables for the tests of ``pmw``."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from pmw.randomness import repeatable_seed
from queries import CategoricalAttribute, Domain, IntegerAttribute


@pytest.fixture
def domain() -> Domain:
    """A domain of 240 cells: ages, sexes, regions and a flag."""
    return Domain(
        (
            IntegerAttribute("age", 20, 59, 4),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("region", ("north", "east", "south", "west"), other=True, missing=True),
            CategoricalAttribute("member", (True, False)),
        ),
        name="people",
    )


@pytest.fixture
def frame() -> pd.DataFrame:
    """3,000 records with dependent attributes, the same in every run."""
    generator = np.random.default_rng(20)
    age = generator.integers(18, 62, 3000)
    sex = np.where(generator.random(3000) < 0.5, "Female", "Male")
    region = generator.choice(
        ["north", "east", "south", "west", "abroad"], 3000, p=[0.4, 0.3, 0.2, 0.07, 0.03]
    )
    member = generator.random(3000) < np.where(age > 40, 0.7, 0.2)
    return pd.DataFrame({"age": age, "sex": sex, "region": region, "member": member, "ignored": 1})


@pytest.fixture
def repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the noise of sessions in files the same in every run; a session itself refuses to."""
    numbers = itertools.count()
    monkeypatch.setattr("pmw.engine.fresh_seed", lambda: repeatable_seed(20, next(numbers)))
