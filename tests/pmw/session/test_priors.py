"""Sessions that begin with a public prior: when it is used, what it changes, and what it never touches."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import pmw
from pmw.data import MemorySource
from pmw.loop.fit import elected, opened_pairs, raked
from pmw.model.distribution import MarginalTerm, dual_numbers
from pmw.model.measurement import QueryMeasurement
from pmw.public.state import PublicState
from pmw.session.maintenance import read_session
from queries import CategoricalAttribute, Domain, IntegerAttribute, Person, encode_records
from tests.pmw.session.stored import killed_drawing
from tests.worlds import opened

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 89),
        CategoricalAttribute("job", tuple("abcdef")),
        IntegerAttribute("rooms", 1, 12),
        CategoricalAttribute("sex", ("f", "m")),
    )
)
PAIRS = list(itertools.combinations(DOMAIN.names, 2))


def people(seed: int, records: int = 3000) -> pd.DataFrame:
    """Return records whose attributes depend on one another, alike for all seeds but for chance."""
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 90, records)
    rooms = (1 + age // 9 + generator.integers(0, 4, records)).clip(1, 12)
    job = np.array(list("abcdef"))[(age // 15 + generator.integers(0, 2, records)) % 6]
    sex = np.where(generator.random(records) < rooms / 13, "f", "m")
    return pd.DataFrame({"age": age, "job": job, "rooms": rooms, "sex": sex})


FRAME, OTHER = people(1), people(2, 6000)
SAMPLE = pmw.public_prior(OTHER, DOMAIN)
TRUE = MemorySource(encode_records(FRAME, DOMAIN))


def shuffled() -> pd.DataFrame:
    generator = np.random.default_rng(3)
    return pd.DataFrame({name: generator.permutation(OTHER[name]) for name in OTHER})


def open_people(path: Path | None = None, **choices: Any) -> pmw.Session:
    given = {"opening": pmw.Opening.PAIRS, "seed": None if path else 4, "prior": SAMPLE, **choices}
    return opened(FRAME, DOMAIN, path, epsilon=1, **given)


def error(state: PublicState) -> float:
    """Return the mean L1 distance of the model's pairs from the table's, as a part of the records."""
    found = [np.abs(state.model.marginal(pair) - TRUE.counts(pair).counts).sum() for pair in PAIRS]
    return float(np.mean(found)) / len(FRAME)


def test_a_sample_like_the_table_is_used_and_lowers_the_error_for_nothing() -> None:
    with open_people(prior=None) as cold, open_people() as session:
        before, state = cold.state, session.state
        assert (before.elects_prior, state.elects_prior) == (None, True)
        assert error(state) < 0.9 * error(before)
        assert state.ledger == before.ledger
        for one, other in zip(state.measurements, before.measurements, strict=True):
            assert one.noise == other.noise
            assert not isinstance(one, QueryMeasurement)
            assert not isinstance(other, QueryMeasurement)
            assert np.array_equal(one.units, other.units)  # the very same draws
        assert session.verify().holds
        answer = session.ask("age < 40 AND sex = 'f'")
        assert answer.interval is not None
        width = np.ptp(answer.interval)
        known = cold.ask("age < 40 AND sex = 'f'").interval
        assert known is not None
        assert width == pytest.approx(np.ptp(known))  # a prior is no evidence


@pytest.mark.parametrize("kind", ["shuffled", "mirrored", "one value"])
def test_a_prior_that_is_wrong_is_dropped_and_leaves_the_session_as_it_is_without(kind: str) -> None:
    other = {
        "shuffled": shuffled(),
        "mirrored": OTHER.assign(age=89 - OTHER["age"]),
        "one value": OTHER.assign(job="a", rooms=3),
    }[kind]
    with open_people(prior=None) as cold, open_people(prior=pmw.public_prior(other, DOMAIN)) as session:
        assert session.state.elects_prior is False
        assert session.status().prior_used is False
        pairs = zip(session.state.model.terms, cold.state.model.terms, strict=True)
        for one, other_term in pairs:
            assert isinstance(one, MarginalTerm)
            assert isinstance(other_term, MarginalTerm)
            assert np.array_equal(one.duals, other_term.duals)
        assert session.verify().holds


def test_nothing_more_is_counted_of_the_table_with_a_prior_than_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, ...]] = []
    marginal = MemorySource._marginal

    def noted(self: MemorySource, scope: tuple[str, ...]) -> Any:
        seen.append(scope)
        return marginal(self, scope)

    monkeypatch.setattr(MemorySource, "_marginal", noted)
    with open_people(prior=None):
        without, seen = seen, []
    with open_people():
        assert seen == without


def test_whether_it_is_used_follows_from_released_numbers_alone() -> None:
    with open_people() as session:
        state = session.state
    again = elected(replace(state, elects_prior=None, ledger=state.ledger))
    assert again.elects_prior is True
    fewer = replace(state, measured=state.measured[:-1], elects_prior=None)
    assert elected(fewer).elects_prior is None
    assert opened_pairs(replace(state, closed=True)) == opened_pairs(state) == list(state.marginals)
    assert opened_pairs(fewer) == []


def test_an_interrupted_session_uses_the_prior_once_all_pairs_are_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "killed.pmw"
    with killed_drawing(lambda requested: requested.what.scope == PAIRS[3]) as seen:
        open_people(path)
    assert read_session(path)[0].elects_prior is None
    assert not read_session(path)[0].marginals[3:]
    with pmw.resume_session(path, FRAME) as session:
        state, status = session.state, session.status()
        assert session.verify().holds
    for one, before in zip(state.marginals, seen, strict=False):
        assert np.array_equal(one.units, before)
    assert (status.prior, status.prior_used) == (SAMPLE.digest, True)
    known = read_session(path)[0]  # from its snapshot
    assert known.elects_prior is True
    assert known.contract.options.prior == SAMPLE
    assert np.allclose(dual_numbers(known.model.terms), dual_numbers(state.model.terms))


def test_a_model_to_hand_out_keeps_it_and_is_a_prior_itself(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    with open_people() as session:
        session.export(path, format="model")
        answer = session.ask("job = 'a' AND rooms < 4", fresh=True)
        manifest = session.export(tmp_path / "rows.csv", pmw.RowPlan(100))
    assert manifest["prior"] == {"sha256": SAMPLE.digest, "used": True}
    model = pmw.load_model(path)
    assert model.status().prior_used is True
    assert model.ask("job = 'a' AND rooms < 4").count == pytest.approx(answer.count, abs=0.01)
    prior = pmw.public_prior(model, DOMAIN)
    with opened(people(9), DOMAIN, epsilon=1, opening=pmw.Opening.PAIRS, seed=6, prior=prior) as next_one:
        assert next_one.state.elects_prior is True
    turned = Domain(DOMAIN.attributes[::-1][:3])
    assert np.allclose(
        pmw.public_prior(model, turned).shares(("sex", "job"), (None, None)),
        prior.shares(("job", "sex"), (None, None)).T,
    )


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"opening": pmw.Opening.ONE_WAY}, "this session measures none"),
        ({"delta": 0}, "this session measures none"),
        ({"simultaneous": True}, "this session measures none"),
        ({"update_limit": 3}, "this session measures none"),
        ({"test": pmw.TestKind.QUERY, "model": pmw.ModelKind.DENSE}, "this session measures none"),
    ],
)
def test_sessions_without_pairs_at_opening_refuse_it(
    tmp_path: Path, choices: dict[str, Any], told: str
) -> None:
    path = tmp_path / "none.pmw"
    delta = choices.pop("delta", 1e-9)
    options = pmw.Options(prior=SAMPLE, **choices)
    small = Domain(DOMAIN.attributes)
    with pytest.raises(pmw.BudgetError, match=told):
        pmw.open_session(FRAME, small, epsilon=1, delta=delta, path=path, options=options)
    assert list(tmp_path.iterdir()) == []


def test_a_prior_of_other_attributes_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    path = tmp_path / "none.pmw"
    fewer = Domain(DOMAIN.attributes[:3])
    options = pmw.Options(prior=SAMPLE)
    with pytest.raises(pmw.BudgetError, match="a prior of the schema's attributes"):
        pmw.open_session(FRAME, fewer, epsilon=1, delta=1e-9, path=path, options=options)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(pmw.BudgetError, match="a prior that public_prior made"):
        pmw.Options(prior=FRAME)  # type: ignore[arg-type]
    with open_people() as session:
        session.export(tmp_path / "model.json", format="model")
    model = pmw.load_model(tmp_path / "model.json")
    wider = Domain((*DOMAIN.attributes[:2], IntegerAttribute("rooms", 1, 13), DOMAIN.attributes[3]))
    with pytest.raises(pmw.DataError, match="attribute 'rooms'"):
        pmw.public_prior(model, wider)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (OTHER.drop(columns="job"), "job"),
        (OTHER[:0], "records that the schema keeps"),
        (OTHER.assign(job="?"), "records that the schema keeps"),
    ],
)
def test_a_public_table_that_says_nothing_is_refused(table: pd.DataFrame, told: str) -> None:
    with pytest.raises(pmw.DataError, match=told):
        pmw.public_prior(table, DOMAIN)


def test_a_public_table_has_its_own_bins_of_long_attributes_and_all_its_records() -> None:
    person = Domain(DOMAIN.attributes, person=Person("id", 1))  # bounds the session's records alone
    assert pmw.public_prior(OTHER, person) == SAMPLE
    assert 20 <= int(SAMPLE.bins["age"].max()) + 1 <= 64
    true = np.bincount(OTHER["age"], minlength=90) / len(OTHER)
    assert np.allclose(SAMPLE.one_ways["age"], true)
    wanted = pd.crosstab(OTHER["job"], OTHER["sex"], normalize=True).to_numpy()
    assert np.allclose(SAMPLE.shares(("job", "sex"), (None, None)), wanted)


SHARES = arrays(np.float64, (3, 2), elements=st.floats(0.05, 1))


@given(SHARES, SHARES)
def test_raking_keeps_ratios_of_products_and_gives_the_sums(given_: Any, wanted: Any) -> None:
    shares, wanted = given_ / given_.sum(), wanted / wanted.sum()
    found = raked(shares, wanted.sum(axis=1), wanted.sum(axis=0))
    assert np.allclose(found.sum(axis=1), wanted.sum(axis=1), atol=1e-3)
    assert np.allclose(found.sum(axis=0), wanted.sum(axis=0))
    before, now = (one[0, 0] * one[1, 1] / (one[0, 1] * one[1, 0]) for one in (shares, found))
    assert now == pytest.approx(before)
