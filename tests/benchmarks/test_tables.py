"""Streams and made-up tables of the benchmarks: what they are about, what depends on what; they repeat."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.tables import MADE_UP, StreamChoice, late_attributes
from queries import Domain, IntegerAttribute

DOMAIN = Domain(tuple(IntegerAttribute(name, 0, 9) for name in "abcde"))


def test_the_second_half_is_about_other_attributes() -> None:
    questions = late_attributes(DOMAIN, 101, seed=3)
    assert len(questions) == 101
    early = {name for query in questions[:51] for name in query.scope}
    assert len(early) == 3
    assert not any(early.issuperset(query.scope) for query in questions[51:])
    assert {name for query in questions[51:] for name in query.scope} == set(DOMAIN.names)


def test_a_seed_repeats_it() -> None:
    first, again, other = (StreamChoice("late", seed, 20).questions(DOMAIN, 0) for seed in (1, 1, 2))
    assert [query.to_json() for query in first] == [query.to_json() for query in again]
    assert [query.to_json() for query in first] != [query.to_json() for query in other]


@pytest.mark.parametrize("name", MADE_UP)
def test_made_up_tables_repeat(name: str) -> None:
    one, two = (MADE_UP[name](None, StreamChoice(size=3)) for _ in range(2))
    assert (one.domain.shape, one.size, len(one.queries)) == ((2,) * 16, 20_000, 3)
    assert all(np.array_equal(*both) for both in zip(one.records.columns, two.records.columns, strict=True))


def test_dependence_is_where_the_tables_say() -> None:
    chain, latent, parity = (
        np.array(MADE_UP[name](None, StreamChoice(size=0)).records.columns, dtype=np.float64)
        for name in ("chain", "latent-class", "parity")
    )
    first, second, last = chain[0], chain[1], chain[-1]
    assert np.mean(first == second) > 0.65
    assert np.mean(first == last) < 0.55
    assert np.abs(np.corrcoef(latent) - np.eye(16)).max() > 0.2
    assert np.abs(np.corrcoef(parity) - np.eye(16)).max() < 0.04
    differ = np.abs(parity[0] - parity[1])
    assert np.mean(differ == parity[2]) == pytest.approx(0.9, abs=0.01)
    assert np.mean(differ == parity[3]) == pytest.approx(0.5, abs=0.02)
