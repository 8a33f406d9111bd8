"""Drafts by privacy, of ends and of keys: what one person moves, the noise, the charge, and the contract."""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.cli.texts import table_text
from pmw.data import as_source
from pmw.data.keys import key_holders
from pmw.errors import BudgetError, DataError, NoiseError, StoreError
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import repeatable_seed
from pmw.public.options import DraftCharge
from pmw.public.pictures import headline
from pmw.public.report import best_guess
from pmw.session import drafts
from pmw.session.drafts import EDGES, DraftTerms, draft_bounds, draft_keys, passing_keys
from pmw.session.store.draft_file import read_charges, record_charge
from queries import UNITS, CategoricalAttribute, Domain, NumericAttribute
from queries.person import Person
from tests.pmw.session.stored import ended
from tests.waiting import joined
from tests.worlds import opened

ADDED, REPLACED = NeighboringRelation.ADD_REMOVE, NeighboringRelation.REPLACE_ONE
DOMAIN = Domain((CategoricalAttribute("region", ("n", "s"), missing=True, other=True),), name="costs")


def costs(records: int = 20_000) -> pd.DataFrame:
    draw = np.random.default_rng(2)
    amount = np.where(draw.random(records) < 0.7, 0.0, draw.lognormal(5, 1.5, records))
    return pd.DataFrame({"amount": amount, "region": draw.choice(["n", "s"], records)})


FRAME = costs()


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(drafts, "fresh_seed", lambda: repeatable_seed(7, next(numbers)))


@pytest.mark.parametrize("relation", [ADDED, REPLACED])
@pytest.mark.parametrize("records", [1, 2])
def test_one_person_moves_the_bins_by_what_the_noise_is_made_for(
    relation: NeighboringRelation, records: int
) -> None:
    """All records of a person, one more than are kept among them, beside somebody else's."""
    numbers = NumericAttribute("amount", EDGES, missing=True, other=True)
    domain = Domain((numbers,), name="draft", person=Person("id", records))

    def counts(own: tuple[str, ...]) -> NDArray[np.int64]:
        rows = [("b", "3"), *(("a", value) for value in own)]
        frame = pd.DataFrame(rows, columns=["id", "amount"])
        return as_source(frame, domain, bytes(32)).counts(("amount",)).counts

    values = ("-5", "0", "1e300", "1e-9", "x", "")
    lists = [
        own for size in range(records + 2) for own in itertools.combinations_with_replacement(values, size)
    ]
    found = [counts(own) for own in lists]
    pairs = itertools.product(found, found) if relation is REPLACED else ((one, counts(())) for one in found)
    moved = max(int(np.abs(one - other).sum()) for one, other in pairs)
    assert moved == records * (1 if relation is ADDED else 2)
    terms = DraftTerms(Fraction(1, 50), relation, records, "id")
    assert terms.noise == DiscreteLaplace(Fraction(moved * UNITS * 50))


@pytest.mark.usefixtures("repeated")
def test_ends_leave_about_one_percent_out_and_the_bound_holds(tmp_path: Path) -> None:
    amount, parts, held, lows = FRAME["amount"], [], [], []
    for number in range(30):
        terms = DraftTerms(Fraction(1, 10), ADDED)
        ends = draft_bounds(FRAME, "amount", terms, tmp_path / f"{number}.draft")
        assert ends.low is not None
        clipped = int(((amount < ends.low) | (amount > ends.high)).sum())
        parts.append(clipped / len(FRAME))
        held.append(clipped <= ends.most_clipped)
        lows.append(ends.low)
    assert np.median(lows) == 0
    assert 0.001 < np.median(parts) < 0.02
    assert all(held)


@pytest.mark.usefixtures("repeated")
def test_ends_that_noise_alone_would_choose_are_not_told_and_charged_all_the_same(tmp_path: Path) -> None:
    path, terms = tmp_path / "a.draft", DraftTerms(Fraction(1, 50), ADDED)
    found = {
        records: [
            draft_bounds(pd.DataFrame({"x": np.resize(np.arange(1, 101), records)}), "x", terms, path)
            for _ in range(20)
        ]
        for records in (0, 500, 5000)
    }
    assert len(read_charges(path)) == 60
    for records in (0, 500):
        assert sum(one.low is None for one in found[records]) >= 17  # 1 of 100 is told by noise alone
        assert all(one.most_clipped >= records for one in found[records] if one.low is None)
    assert all(0 <= (one.low or 0.0) <= 4 and 128 <= (one.high or 0.0) <= 512 for one in found[5000])
    needed = math.ceil(found[0][0].needed)
    assert 550 < needed < 600  # of scale 50: 168 bins, each of which noise alone brings so far once in 16,800
    enough = [
        draft_bounds(pd.DataFrame({"x": [100.0] * needed}), "x", terms, path).high is not None
        for _ in range(40)
    ]
    assert sum(enough) >= 36
    assert draft_bounds(FRAME, "amount", replace(terms, neighboring_relation=REPLACED), path).needed == (
        pytest.approx(2 * found[0][0].needed)
    )


def test_every_run_is_a_charge_of_its_own_and_an_unfinished_line_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.draft"
    for charges in (1, 2):
        draft_bounds(FRAME, "amount", DraftTerms(Fraction(1, 50), ADDED), path)
        path.write_bytes(path.read_bytes() + b'{"content": "online-p')
        assert len(read_charges(path)) == charges
    draft_bounds(FRAME.assign(id=1), "amount", DraftTerms(Fraction(1, 3), REPLACED, 2, "id"), path)
    found = read_charges(path)
    assert [one.epsilon for one in found] == [Fraction(1, 50), Fraction(1, 50), Fraction(1, 3)]
    assert found[2].neighboring_relation is REPLACED
    assert (found[2].records_per_person, found[2].person_column) == (2, "id")
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_charge_is_durable_before_noise_is_drawn_or_anything_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terms = DraftTerms(Fraction(1, 50), ADDED, delta=Fraction(1, 10**9))
    frame = pd.DataFrame({"amount": [1.0, 2.0], "city": ["Oslo", "Oslo"]})
    steps: tuple[tuple[Callable[..., object], str, tuple[str, ...]], ...] = (
        (draft_bounds, "amount", ("as_source", "fresh_seed", "noisy_counts", "chosen_ends")),
        (draft_keys, "city", ("key_holders", "fresh_seed", "noisy_counts", "passing_keys", "DraftedKeys")),
    )
    for draft, attribute, moments in steps:
        for charges, moment in zip((0, 1, 1, 1, 1), moments, strict=False):
            path = tmp_path / f"{attribute}-{moment}.draft"
            with monkeypatch.context() as patch:
                patch.setattr(drafts, moment, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
                assert ended(partial(draft, frame, attribute, terms, path)) == -signal.SIGKILL
            assert (len(read_charges(path)) if path.exists() else 0) == charges, moment


def test_a_charge_is_synchronised_before_the_draft_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fsync, lasting = tmp_path / "a.draft", os.fsync, list[str]()

    def noting(descriptor: int) -> None:
        fsync(descriptor)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            lasting.append(path.read_text())
        elif os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            lasting.append("the name")

    monkeypatch.setattr(os, "fsync", noting)
    for charges in (1, 2):
        lasting.clear()
        draft_bounds(FRAME, "amount", DraftTerms(Fraction(1, 50), ADDED), path)
        assert lasting == [path.read_text(), "the name"]
        assert len(lasting[0].splitlines()) == charges


def test_two_drafts_at_once_are_both_charged(tmp_path: Path) -> None:
    path, charge = tmp_path / "a.draft", DraftTerms(Fraction(1, 50), ADDED).charge("ends of amount")
    record_charge(path, charge)
    adding = threading.Thread(target=record_charge, args=(path, replace(charge, what="keys of city")))
    with path.open("r+b") as file:  # another draft, in the middle of its own charge
        fcntl.flock(file, fcntl.LOCK_EX)
        known = file.read()
        adding.start()
        adding.join(0.3)
        assert path.read_bytes() == known
        file.write(known)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_UN)
    joined(adding)
    assert [one.what for one in read_charges(path)] == ["ends of amount"] * 2 + ["keys of city"]


@given(
    st.fractions(Fraction(1, 10**6), 1000),
    st.sampled_from([ADDED, REPLACED]),
    st.integers(1, 300),
)
def test_the_noise_of_a_draft_costs_no_more_than_its_charge_and_hardly_less(
    epsilon: Fraction, relation: NeighboringRelation, records: int
) -> None:
    terms = DraftTerms(epsilon, relation, records, "id")
    moved = (1 if relation is ADDED else 2) * records * UNITS
    cost = moved / terms.noise.scale  # of discrete Laplace noise, exactly
    assert cost <= terms.charge("ends").epsilon
    assert moved / (terms.noise.scale - 1) > epsilon


def test_a_damaged_file_of_drafts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.draft"
    record_charge(path, DraftTerms(Fraction(1, 50), ADDED).charge("ends of amount"))
    form = json.loads(path.read_text())
    damaged: tuple[dict[str, Any], ...] = (
        {name: value for name, value in form.items() if name != "delta"}, {**form, "epsilon": "0"},
        {**form, "epsilon": "1/0"}, {**form, "records_per_person": 1.5}, {**form, "content": "else"},
        {**form, "neighboring_relation": "other"},
    )  # fmt: skip
    for text in (*map(json.dumps, damaged), "", "[]"):
        path.write_text(f"{text}\n" if text else "")
        with pytest.raises(StoreError, match="no file of drafts" if len(text) > 2 else "a.draft"):
            read_charges(path)


def test_every_output_tells_the_epsilon_and_delta_of_session_and_drafts_together(tmp_path: Path) -> None:
    charge = replace(DraftTerms(Fraction(3, 4), ADDED).charge("keys"), delta=Fraction(1, 10**5))
    options, out = pmw.Options(drafts=(charge,)), tmp_path / "out.csv"
    with pmw.open_session(FRAME, DOMAIN, epsilon=1, delta="1e-9", options=options) as session:
        answer, table = session.ask("region = 'n'"), session.sql("SELECT COUNT(*) FROM costs")
        every = session.ask_all(["region = 'n'", "region = 's'"])
        told = (1.75, 1.0001e-05)
        for spent in (answer.spent, table.spent, *(one.spent for one in every.each())):
            assert (spent.epsilon_cap, spent.delta) == told
        session.export(out, format="csv")
        session.export(tmp_path / "out.model", format="model")
        manifest = json.loads(out.with_name("out.csv.manifest.json").read_text())
        for form in (session.status().to_dict(), session.ledger().to_dict(), manifest):
            assert (form["epsilon_cap"], form["delta"]) == told
        shown = (
            answer.origin(),
            session.ledger().sentence(),
            session._repr_html_(),
            session.status()._repr_html_(),
            table_text(table),
            repr(session),
            repr(pmw.load_model(tmp_path / "out.model")),
            headline(session.state),
            next(one.detail for one in session.verify().checks if one.name == "the plans fit the contract"),
        )
        for text in shown:
            assert re.search(r"epsilon( |=| = )1[.]75, delta( |=| = )1[.]0001e-05", text), text
        assert best_guess(session.contract) == pytest.approx(0.85195, abs=1e-4)  # that of epsilon 1 is 0.731
    with pmw.open_session(FRAME, DOMAIN, epsilon=1, delta="1e-9") as session:
        assert session.ask("region = 'n'").spent.to_dict()["epsilon_cap"] == 1


def test_drafts_that_a_session_cannot_go_on_from_are_refused() -> None:
    texts = Domain(DOMAIN.attributes, name="costs", person=Person("id", 1, ids="integer"))
    ends = DraftTerms(Fraction(1), ADDED).charge("ends")
    keys = DraftTerms(Fraction(1, 10), ADDED, 1, "id", Fraction(1, 10**9)).charge("keys of city")
    half = replace(ends, delta=Fraction(1, 2))
    refused: tuple[tuple[str, tuple[DraftCharge, ...], Domain, Any, dict[str, Any]], ...] = (
        ("other neighbouring tables", (DraftTerms(Fraction(1), REPLACED).charge("ends"),), DOMAIN, 0, {}),
        ("another number of records", (replace(ends, records_per_person=2),), DOMAIN, 0, {}),
        ("another number of records", (ends,), DOMAIN, 0, {"records_per_person": 2}),
        ("for other persons", (replace(ends, person_column="id"),), DOMAIN, 0, {}),
        ("come to 1", (half, half), DOMAIN, 1e-9, {}),
        ("open it with a delta above 0", (keys,), DOMAIN, 0, {"person_column": "id"}),
        # 7 and 07 were two persons to the draft, and are one to the session.
        ("tell ids apart as texts", (keys,), texts, 1e-9, {}),
    )
    for message, charges, domain, delta, choices in refused:
        with pytest.raises(BudgetError, match=message):
            opened(FRAME, domain, epsilon=1, delta=delta, drafts=charges, **choices)


@pytest.mark.usefixtures("repeated")
def test_no_more_records_of_a_person_count_than_were_told(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"amount": [50.0] * 9000, "id": ["a"] * 8000 + [f"p{place}" for place in range(1000)]}
    )
    terms = DraftTerms(Fraction(5), ADDED, 2, "id")
    ends = draft_bounds(frame, "amount", terms, tmp_path / "a.draft")
    assert (ends.low, ends.high) == (32, 64)
    assert ends.records == pytest.approx(1002, abs=20)


KEY = bytes(range(32))
EPSILON, DELTA = Fraction(1), Fraction(1, 200)


def frame_of(rows: Sequence[tuple[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["id", "city"], dtype=object)


def told(frame: pd.DataFrame, terms: DraftTerms, cities: str) -> NDArray[np.float64]:
    """Return the exact probability of each set of keys that a draft may tell: float64, shape (2^cities,).

    A key whose number of persons is below the threshold is told with the same ratio of probabilities as any
    noisy count of it above the threshold has, so the sets tell as much as these counts would.
    """
    held = key_holders(frame, "city", terms.person, None if terms.person is None else KEY)
    persons = dict(zip(held.keys, held.persons.tolist(), strict=True))
    chances = np.ones(1)
    for city in cities:
        short = np.array([(terms.threshold - persons.get(city, 0)) * UNITS])
        passes = float(terms.noise.survival(short)[0]) if city in persons else 0.0
        chances = np.concatenate([chances * (1 - passes), chances * passes])
    assert chances.sum() == pytest.approx(1)
    return chances


def some_of_one_person(terms: DraftTerms) -> float:
    """Return the probability that some of K keys is told that one person alone holds."""
    short = np.array([(terms.threshold - 1) * UNITS])
    return float(1 - (1 - terms.noise.survival(short)[0]) ** terms.records_per_person)


def excess(one: NDArray[np.float64], other: NDArray[np.float64], epsilon: float) -> float:
    """Return the least delta with which one distribution is within epsilon of another."""
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize("relation", [ADDED, REPLACED])
@pytest.mark.parametrize("records", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_what_is_told_of_neighbouring_tables_is_within_epsilon_and_delta(
    relation: NeighboringRelation, records: int
) -> None:
    """All that a person may hold, more than K keys too, beside others; every set that may be told."""
    terms = DraftTerms(EPSILON, relation, records, "id", DELTA)
    cities, threshold = "abcdef"[: 2 * records], terms.threshold
    own = [
        [("u", city) for city in held for _ in range(2)]
        for size in range(len(cities) + 1)
        for held in itertools.combinations(cities, size)
    ]
    worst, closer = 0.0, 0.0
    for others in (0, 1, threshold - 2, threshold - 1, threshold, threshold + 1):
        for some in {cities, cities[::2]}:
            rows = [(f"{city}{place}", city) for city in some for place in range(others)]
            found = [told(frame_of([*rows, *held]), terms, cities) for held in own]
            for one, other in itertools.product(found[:1] if relation is ADDED else found, found):
                worst = max(worst, excess(one, other, 1), excess(other, one, 1))
                closer = max(closer, excess(one, other, 0.6), excess(other, one, 0.6))
    assert worst <= DELTA
    assert worst == pytest.approx(some_of_one_person(terms))  # as the proof says, under either relation
    assert closer > DELTA  # with a smaller epsilon it would not hold


@pytest.mark.parametrize("relation", [ADDED, REPLACED])
@pytest.mark.parametrize("records", [1, 2, 5])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [("0.01", "1e-9"), ("0.5", "1e-6"), ("1", "0.4"), ("30", "1e-300")]
)
def test_the_threshold_is_the_least_that_one_person_seldom_passes(
    relation: NeighboringRelation, records: int, epsilon: str, delta: str
) -> None:
    terms = DraftTerms(Fraction(epsilon), relation, records, "id", Fraction(delta))
    scale = (1 if relation is ADDED else 2) * records / float(epsilon)
    passes, before = (
        math.log(0.5) - (persons - 1) / scale for persons in (terms.threshold, terms.threshold - 1)
    )  # to a millionth: the noise is in units
    seldom = math.log(float(delta) / records)
    assert passes <= seldom + 1e-6
    assert terms.threshold == 2 or before > seldom - 1e-6


def test_no_threshold_without_a_delta_or_without_persons() -> None:
    with pytest.raises(BudgetError, match="keys need a delta above 0"):
        _ = DraftTerms(Fraction(1), ADDED).threshold
    with pytest.raises(BudgetError, match="name the column of ids"):
        _ = DraftTerms(Fraction(1), ADDED, 2, None, DELTA).threshold
    for epsilon, delta in ((0, DELTA), (-1, DELTA), (1, -1), (1, 1), (2000, DELTA)):
        with pytest.raises(BudgetError):
            DraftTerms(Fraction(epsilon), ADDED, delta=Fraction(delta))


def test_keys_at_the_threshold_pass_and_are_sorted() -> None:
    units = np.array([5 * UNITS, 5 * UNITS - 1, 9 * UNITS, -UNITS])
    assert passing_keys(("oslo", "bern", "Rome", "nice"), units, 5) == ("Rome", "oslo")
    assert passing_keys((), np.zeros(0, dtype=np.int64), 5) == ()


@pytest.mark.statistical
@pytest.mark.usefixtures("repeated")
@pytest.mark.parametrize("relation", [ADDED, REPLACED])
def test_each_key_has_noise_of_its_own_and_of_the_scale_that_is_charged(
    relation: NeighboringRelation, tmp_path: Path
) -> None:
    terms = DraftTerms(EPSILON if relation is ADDED else 2 * EPSILON, relation, delta=Fraction(1, 100))
    threshold, count = terms.threshold, 3000
    for persons in (threshold - 1, threshold, threshold + 1):
        rows = [("", f"city {place}") for place in range(count)] * persons
        found = draft_keys(frame_of(rows), "city", terms, tmp_path / "a.draft")
        assert found.threshold == threshold
        assert list(found.keys) == sorted(found.keys)
        chances = 0.5 * math.exp(-abs(threshold - persons))  # at a scale of one person
        wanted = 1 - chances if persons > threshold else chances
        assert len(found.keys) / count == pytest.approx(
            wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / count)
        )


@pytest.mark.usefixtures("repeated")
def test_no_more_keys_of_a_person_count_than_were_told(tmp_path: Path) -> None:
    rows = [(f"p{person}", f"city {city}") for person in range(400) for city in range(10)]
    terms = DraftTerms(Fraction(1), ADDED, 10, "id", DELTA)
    wide = draft_keys(frame_of(rows), "city", terms, tmp_path / "a.draft")
    assert wide.keys == tuple(f"city {city}" for city in range(10))
    terms = DraftTerms(Fraction(1, 50), ADDED, 1, "id", DELTA)
    assert 40 < terms.threshold < 400  # 40 persons give each; all 400 hold it
    assert draft_keys(frame_of(rows), "city", terms, tmp_path / "a.draft").keys == ()


@pytest.mark.usefixtures("repeated")
def test_rare_texts_are_not_told_and_every_run_is_a_charge(tmp_path: Path) -> None:
    rows = [(f"p{place}", "Oslo" if place % 2 else "oslo") for place in range(400)]
    frame = frame_of(
        [*rows, *((f"r{place}", f"rare {place}") for place in range(400)), ("s", ""), ("t", " ")]
    )
    terms = DraftTerms(Fraction(1), REPLACED, 2, "id", Fraction(1, 10**9))
    path = tmp_path / "a.draft"
    for _ in range(2):
        assert draft_keys(frame, "city", terms, path).keys == ("Oslo", "oslo")
    charges = read_charges(path)
    assert charges == (terms.charge("keys of city"),) * 2
    assert (charges[0].epsilon, charges[0].delta) == (Fraction(1), Fraction(1, 10**9))
    assert (charges[0].neighboring_relation, charges[0].records_per_person) == (REPLACED, 2)
    for empty in (frame.iloc[:0], frame.assign(city=None)):
        assert draft_keys(empty, "city", terms, path).keys == ()
    assert len(read_charges(path)) == 4


def test_nothing_is_charged_that_cannot_be_drafted(tmp_path: Path) -> None:
    frame, path = frame_of([("u", "Oslo")]).assign(age=[1]), tmp_path / "a.draft"
    good = DraftTerms(Fraction(1), ADDED, delta=DELTA)
    refused = (
        (DataError, "none", good), (DataError, "age", good), (pmw.PMWError, "", good),
        (BudgetError, "city", DraftTerms(Fraction(1), ADDED)),
        (BudgetError, "city", DraftTerms(Fraction(1), ADDED, 2, None, DELTA)),
        (NoiseError, "city", DraftTerms(Fraction(1, 10**12), ADDED, delta=DELTA)),
        (pmw.PMWError, "city", DraftTerms(Fraction(1), ADDED, 1, "city", DELTA)),
    )  # fmt: skip
    for error, attribute, terms in refused:
        with pytest.raises(error) as caught:
            draft_keys(frame, attribute, terms, path)
        assert "Oslo" not in str(caught.value)
    with pytest.raises(DataError):
        draft_bounds(frame, "amount", good, path)
    assert not path.exists()


def test_nothing_is_drawn_where_the_charge_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(drafts, "noisy_counts", lambda *given: drawn.append(1))
    (tmp_path / "other").write_text("something else\n")
    for path in (tmp_path / "none" / "a.draft", tmp_path / "other"):
        with pytest.raises(StoreError):
            draft_keys(frame_of([("u", "Oslo")]), "city", DraftTerms(Fraction(1), ADDED, delta=DELTA), path)
    assert not drawn
