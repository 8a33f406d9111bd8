"""Worlds: the tables that many tests ask about, and sessions over them.

A test takes a table that has what it is about, and says nothing more of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.privacy.random_bits import repeatable_seed
from pmw.public.plans import MarginalTestPlan, marginal_tier
from pmw.public.state import PublicState
from pmw.public.sums import Estimate
from queries import CategoricalAttribute, Domain, IntegerAttribute

_One = TypeVar("_One")
REGIONS = ("north", "east", "south", "west")


@dataclass(frozen=True, eq=False)
class World:
    """Records over a domain; nobody changes them.

    Args:
        domain: the declared attributes.
        frame: the records.
    """

    domain: Domain
    frame: pd.DataFrame

    def opened(
        self, path: Path | None = None, *, epsilon: float = 2, delta: float = 1e-9, **choices: Any
    ) -> pmw.Session:
        """Open a session over the records."""
        return opened(self.frame, self.domain, path, epsilon=epsilon, delta=delta, **choices)

    def state(self, **choices: Any) -> PublicState:
        """Return the state of a session that was just opened."""
        with self.opened(**choices) as session:
            return session.state


def opened(
    frame: pd.DataFrame,
    domain: Domain,
    path: Path | None = None,
    *,
    epsilon: float = 2,
    delta: float = 1e-9,
    options: pmw.Options | None = None,
    **choices: Any,
) -> pmw.Session:
    """Open a session over a table of a test's own, under options or under choices that make them.

    It tests marginals, where nothing else is chosen.
    """
    chosen = pmw.Options(**{"opening": pmw.Opening.ONE_WAY, **choices}) if options is None else options
    return pmw.open_session(frame, domain, epsilon=epsilon, delta=delta, path=path, options=chosen)


def declared(
    table: str = "records", *, special: bool = False, **cells: range | Sequence[str | int]
) -> Domain:
    """Return a domain of whole numbers, given as ranges, and of categories, with special cells or without."""
    every: dict[str, Any] = {"missing": special, "other": special}
    attributes = (
        IntegerAttribute(name, own.start, own.stop - 1, **every)
        if isinstance(own, range)
        else CategoricalAttribute(name, tuple(own), **every)
        for name, own in cells.items()
    )
    return Domain(tuple(attributes), table)


def known(one: _One | None) -> _One:
    """Return what a test needs, which is there."""
    assert one is not None
    return one


def ends(answer: pmw.Answer | Estimate) -> tuple[float, float]:
    """Return the ends of an answer's interval, which is there."""
    return known(answer.interval)


def repeat_noise(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Make the noise of sessions in files the same in every run; a session itself refuses to."""
    numbers = itertools.count()
    patch.setattr("pmw.session.journal.fresh_seed", lambda: repeatable_seed(seed, next(numbers)))


def marginal_plan(state: PublicState) -> MarginalTestPlan:
    """Return the plan of the tests of marginals."""
    return known(marginal_tier(state.plan))


def state_with(state: PublicState, **changes: Any) -> PublicState:
    """Return the state with another plan of its tests of marginals."""
    return replace(state, plan=(replace(marginal_plan(state), **changes), *state.plan[1:]))


def _people() -> pd.DataFrame:
    generator = np.random.default_rng(20)
    age = generator.integers(18, 62, 3000)
    sex = np.where(generator.random(3000) < 0.5, "Female", "Male")
    region = generator.choice([*REGIONS, "abroad"], 3000, p=[0.4, 0.3, 0.2, 0.07, 0.03])
    member = generator.random(3000) < np.where(age > 40, 0.7, 0.2)
    return pd.DataFrame({"age": age, "sex": sex, "region": region, "member": member, "ignored": 1})


def _people_by(age: IntegerAttribute) -> Domain:
    return Domain(
        (
            age,
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("region", REGIONS, other=True, missing=True),
            CategoricalAttribute("member", (True, False)),
        ),
        name="people",
    )


def _incomes() -> pd.DataFrame:
    generator = np.random.default_rng(21)
    income = np.where(generator.random(3000) < 0.6, 0, generator.exponential(20, 3000) // 1)
    income[generator.random(3000) < 0.02] = np.nan
    sex = np.where(generator.random(3000) < np.where(income > 0, 0.3, 0.7), "Female", "Male")
    return pd.DataFrame({"income": np.minimum(income, 99), "sex": sex})


def _visits() -> pd.DataFrame:
    generator = np.random.default_rng(21)
    age = generator.integers(20, 50, 20_000)
    visits = np.minimum(generator.poisson(age / 12), 9)
    region = generator.choice(REGIONS, 20_000, p=[0.4, 0.3, 0.2, 0.1])
    sex, member = (generator.random(20_000) < share for share in (0.5, 0.3))
    sexes = np.where(sex, "Female", "Male")
    return pd.DataFrame({"age": age, "sex": sexes, "region": region, "member": member, "visits": visits})


def _letters(size: int, records: int, *, joined: bool) -> pd.DataFrame:
    cells = np.random.default_rng(1).integers(0, size, (records, 5))
    if joined:
        cells[:, 1] = cells[:, 0]
    return pd.DataFrame(np.array(list("stuvwxyz"))[cells], columns=list("abcde"))


def _wide() -> pd.DataFrame:
    generator = np.random.default_rng(5)
    first = generator.integers(0, 4, 20_000)
    return pd.DataFrame({name: (first + generator.integers(0, 3, 20_000)) % 4 for name in "abcdef"})


# 240 cells: ages, sexes, regions and a flag, which depend on one another.
PEOPLE = World(_people_by(IntegerAttribute("age", 20, 59, 4)), _people())

# The same people by single years: too many cells to measure the whole table.
YEARS = World(_people_by(IntegerAttribute("age", 20, 59)), PEOPLE.frame)

# The same with a cell for every record, as replace-one needs it.
WHOLE_YEARS = World(
    Domain(tuple(replace(one, missing=True, other=True) for one in YEARS.domain), name="people"), PEOPLE.frame
)

# A long ordered attribute, which is measured as a hierarchical histogram; few of its cells have most records.
INCOMES = World(
    Domain(
        (IntegerAttribute("income", 0, 99, missing=True), CategoricalAttribute("sex", ("Female", "Male"))),
        name="people",
    ),
    _incomes(),
)

# 20,000 records, in which most pairs of attributes are independent: tests are rarely positive.
VISITS = World(
    Domain(
        (
            IntegerAttribute("age", 20, 49, missing=True, other=True),
            CategoricalAttribute("sex", ("Female", "Male"), missing=True, other=True),
            CategoricalAttribute("region", REGIONS, missing=True, other=True),
            CategoricalAttribute("member", (True, False), missing=True, other=True),
            IntegerAttribute("visits", 0, 9, missing=True, other=True),
        ),
        name="study",
    ),
    _visits(),
)

# Five attributes alike, which are independent.
LETTERS = World(
    Domain(tuple(CategoricalAttribute(name, tuple("stuvwx"), missing=True, other=True) for name in "abcde")),
    _letters(6, 4000, joined=False),
)

# Five attributes alike, of which b is a: its pair is wrong in a model that knows each attribute alone.
JOINED = World(
    Domain(tuple(CategoricalAttribute(name, tuple("stuvwxyz")) for name in "abcde")),
    _letters(8, 5000, joined=True),
)

# Six short attributes, 20,000 dependent records: more cells than their pairs, so that no table is measured
# whole; none is binned.
WIDE = World(
    Domain(tuple(IntegerAttribute(name, 0, 3, missing=True, other=True) for name in "abcdef"), name="wide"),
    _wide(),
)
