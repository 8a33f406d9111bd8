"""What a session is told beforehand: a public prior, and the questions that are expected."""

from __future__ import annotations

import itertools
import json
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
from pmw.loop.priors import elected, opened_pairs, raked
from pmw.model.distribution import dual_numbers
from pmw.model.estimate import noise_variance
from pmw.model.measurement import QueryMeasurement
from pmw.public.codec import dumps, form_of
from pmw.public.state import PublicState
from pmw.session.maintenance import read_session
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    Person,
    QueryError,
    encode_records,
    parse_line,
)
from tests.pmw.session.stored import edit, failed, killed_drawing
from tests.worlds import ends, opened, repeat_noise

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
        bars = [ends(one.ask("age < 40 AND sex = 'f'")) for one in (session, cold)]
        assert np.ptp(bars[0]) == pytest.approx(np.ptp(bars[1]))  # a prior is no evidence


def test_a_prior_that_is_wrong_is_dropped_and_leaves_the_session_as_it_is_without() -> None:
    with open_people(prior=None) as session:
        cold = session.state
    generator = np.random.default_rng(3)
    for other in (
        pd.DataFrame({name: generator.permutation(OTHER[name]) for name in OTHER}),
        OTHER.assign(age=89 - OTHER["age"]),
        OTHER.assign(job="a", rooms=3),
    ):
        with open_people(prior=pmw.public_prior(other, DOMAIN)) as session:
            assert session.state.elects_prior is False
            assert session.status().prior_used is False
            assert np.array_equal(dual_numbers(session.state.model.terms), dual_numbers(cold.model.terms))
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


def test_an_interrupted_opening_measures_the_rest_and_uses_the_prior_once_all_pairs_are_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "killed.pmw"
    with killed_drawing(lambda requested: requested.what.scope == PAIRS[3]) as seen:
        open_people(path, expected=EXPECTED)
    assert read_session(path)[0].elects_prior is None
    assert not read_session(path)[0].marginals[3:]
    with pmw.resume_session(path, FRAME) as session, expecting() as whole:
        state, status = session.state, session.status()
        assert session.verify().holds
        assert widths(state).keys() == widths(whole.state).keys()  # the rest has the prices that were planned
        assert state.ledger.share == pytest.approx(whole.state.ledger.share, abs=1e-3)
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
    wider = Domain((*DOMAIN.attributes[:2], IntegerAttribute("rooms", 1, 13), DOMAIN.attributes[3]))
    with pytest.raises(pmw.DataError, match="attribute 'rooms'"):
        pmw.public_prior(model, wider)
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
        ({"opening": pmw.Opening.ONE_WAY}, "has opening = one-way"),
        ({"opening": pmw.Opening.NONE}, "has opening = none"),
        ({"test": pmw.TestKind.QUERY}, "tests single questions"),
        ({"delta": 0}, "delta has to be above 0"),
        ({"update_limit": 3}, "tests them instead"),
        ({"simultaneous": True}, "tests them instead"),
        ({"accuracy": 0.2, "records": 3000}, "this session "),
    ],
)
def test_sessions_that_measure_no_pairs_say_why_they_refuse_what_they_are_told(
    choices: dict[str, Any], told: str, tmp_path: Path
) -> None:
    delta = choices.pop("delta", "1e-9")
    expecting = pmw.Options(**{"opening": pmw.Opening.PAIRS, "expected": EXPECTED, **choices})
    for options, why in (
        (expecting, f"expected questions share the budget among all pairs.*{told}"),
        (pmw.Options(prior=SAMPLE, **choices), "this session measures none"),
    ):
        with pytest.raises(pmw.BudgetError, match=why):
            opened(FRAME, DOMAIN, tmp_path / "s.pmw", epsilon=1, delta=delta, options=options)
        with pytest.raises(pmw.BudgetError, match=why):
            pmw.plan_session(DOMAIN, records=3000, epsilon=1, delta=delta, options=options)
    assert list(tmp_path.iterdir()) == []


def test_a_prior_of_other_attributes_or_of_nothing_is_refused(tmp_path: Path) -> None:
    options, path = pmw.Options(prior=SAMPLE), tmp_path / "none.pmw"
    with pytest.raises(pmw.BudgetError, match="a prior of the schema's attributes"):
        opened(FRAME, Domain(DOMAIN.attributes[:3]), path, options=options)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(pmw.BudgetError, match="a prior that public_prior made"):
        pmw.Options(prior=FRAME)  # type: ignore[arg-type]
    for table, told in (
        (OTHER.drop(columns="job"), "job"),
        (OTHER[:0], "records that the schema keeps"),
        (OTHER.assign(job="?"), "records that the schema keeps"),
    ):
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


QUESTIONS = [
    "age >= 40 AND sex = 'm'",
    "sex = 'm' AND age >= 40",  # the same
    "SELECT COUNT(*) FROM records WHERE rooms > 3 GROUP BY job",
    '{"where": "age >= 65"}',
    '{"sql": "SELECT COUNT(*) FROM records GROUP BY sex"}',
]
EXPECTED = pmw.expected_questions(QUESTIONS[:3], DOMAIN)


def expecting(
    path: Path | None = None, expected: pmw.ExpectedQuestions | None = EXPECTED, **choices: Any
) -> pmw.Session:
    return open_people(path, prior=None, expected=expected, **choices)


@given(st.permutations(QUESTIONS), st.lists(st.sampled_from(QUESTIONS)))
def test_different_questions_count_once_each_in_any_order_and_a_statement_counts_in_each_group(
    tmp_path: Path, order: list[str], again: list[str]
) -> None:
    asked = tmp_path / "asked.txt"
    asked.write_text("\n".join([*order, *again]))
    found = pmw.expected_questions(asked, DOMAIN)
    assert found.by_scope == {("age", "sex"): 1, ("job", "rooms"): 6, ("age",): 1, ("sex",): 2}
    assert len(found) == 10
    assert pmw.expected_questions(str(asked), DOMAIN) == found
    lines = [parse_line(one, DOMAIN) if one.startswith("{") else one for one in QUESTIONS]
    assert pmw.expected_questions(lines, DOMAIN) == found


def test_what_cannot_be_expected_is_refused(tmp_path: Path) -> None:
    for questions, told in (
        ([], "expected a question, got none"),
        (["ages > 3"], "unknown attribute 'ages'"),
        ([LinearQuery.cells(replace(DOMAIN, name="others"), {})], "made for another domain"),
    ):
        with pytest.raises(QueryError, match=told):
            pmw.expected_questions(questions, DOMAIN)
    age, sex = ("age",), ("sex",)
    for scopes, counts in (((), ()), ((age,), (0,)), ((sex, age), (1, 1)), ((age,), (1, 2))):
        with pytest.raises(pmw.BudgetError, match="a number of questions for each scope"):
            pmw.ExpectedQuestions(scopes, counts, "0")
    for scope in (("hours",), ("sex", "age"), ("age", "age")):
        with pytest.raises(pmw.BudgetError, match="attributes that the schema does not declare"):
            expecting(tmp_path / "study.pmw", pmw.ExpectedQuestions((scope,), (1,), "0" * 64))
    small = replace(DOMAIN, attributes=DOMAIN.attributes[2:])
    options = pmw.Options(expected=pmw.expected_questions(["rooms > 3"], small))
    with pytest.raises(pmw.BudgetError, match="measures the whole table, which answers every question alike"):
        opened(FRAME, small, tmp_path / "study.pmw", epsilon=1, options=options)
    assert list(tmp_path.iterdir()) == []


def widths(state: PublicState) -> dict[tuple[str, ...], float]:
    """Return the variances of the pairs that were measured before any question, on one cell."""
    return {one.scope: noise_variance(one.noise) for one in state.marginals}


def test_expected_pairs_are_measured_with_less_noise_and_others_with_at_most_twice_the_variance() -> None:
    with expecting() as session, expecting(expected=None) as usual:
        found, before = widths(session.state), widths(usual.state)
        assert found.keys() == before.keys()
        for scope, variance in found.items():
            if scope in EXPECTED.scopes:
                assert variance < 0.7 * before[scope]
            else:
                assert variance <= 2.01 * before[scope]
        assert session.state.ledger.share == pytest.approx(usual.state.ledger.share, abs=1e-6)
        assert session.verify().holds
        for state, is_written in ((usual.state, False), (session.state, True)):
            text = dumps([form_of(state.contract), form_of(state.plan)])
            assert ('"expected"' in text) is ('"added"' in text) is is_written  # else it is as before


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Open a session in a file, ask something, and return its path."""
    repeat_noise(monkeypatch, 5)
    path = tmp_path / "study.pmw"
    with expecting(path) as session:
        session.ask("age >= 65 AND job = 'a'")
    return path


def test_a_session_goes_on_with_them_and_holds(study: Path) -> None:
    with pmw.resume_session(study, FRAME) as session:
        assert session.state.contract.options.expected == EXPECTED
        session.ask("rooms > 3 AND job = 'a' AND sex = 'm'")
        session.finish()
    assert failed(study) == {}


@pytest.mark.parametrize(
    ("fact", "place", "value", "told"),
    [
        ("contract", ("options", "expected", "counts"), [5, 1], "not shared"),
        ("opening_plan", ("expected",), "1/3", "not shared"),
        ("test_plan", (0, "added", 0, "price"), "1/1024", "not paid"),
        ("test_plan", (0, "added"), None, "not paid"),
    ],
)
def test_weights_that_are_not_those_of_the_questions_are_found(
    study: Path, fact: str, place: tuple[Any, ...], value: Any, told: str
) -> None:
    def change(text: str) -> str:
        form = json.loads(text)
        inner = form
        for key in place[:-1]:
            inner = inner[key]
        assert inner[place[-1]] != value
        if value is None:
            del inner[place[-1]]
        else:
            inner[place[-1]] = value
        return json.dumps(form, separators=(",", ":"), ensure_ascii=False)

    edit(study, "meta", "value", f"key = '{fact}'", change)
    assert f"{told} as the expected questions ask for" in failed(study)["the plans fit the contract"]
