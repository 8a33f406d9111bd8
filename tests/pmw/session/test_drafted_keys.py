"""Keys by privacy: the guarantee by exact enumeration, the threshold, the noise, and what is charged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
from pmw.data.keys import key_holders
from pmw.errors import BudgetError, DataError, NoiseError, StoreError
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.random_bits import repeatable_seed
from pmw.public.contract import guarantee
from pmw.session import drafts
from pmw.session.drafts import DraftTerms, draft_keys, passing_keys
from pmw.session.store.draft_file import read_charges
from queries import UNITS, CategoricalAttribute, Domain
from queries.person import Person

ADDED, REPLACED = NeighboringRelation.ADD_REMOVE, NeighboringRelation.REPLACE_ONE
KEY = bytes(range(32))
EPSILON, DELTA = Fraction(1), Fraction(1, 200)


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(drafts, "fresh_seed", lambda: repeatable_seed(8, next(numbers)))


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
@pytest.mark.parametrize("records", [1, 2, 3])
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
            pairs = (
                [(found[0], one) for one in found]
                if relation is ADDED
                else [*itertools.product(found, found)]
            )
            for one, other in pairs:
                worst = max(worst, excess(one, other, 1), excess(other, one, 1))
                closer = max(closer, excess(one, other, 0.6), excess(other, one, 0.6))
    assert worst <= DELTA
    assert worst == pytest.approx(some_of_one_person(terms))  # as the proof says, under either relation
    assert closer > DELTA  # with a smaller epsilon it would not hold


@pytest.mark.parametrize("relation", [ADDED, REPLACED])
def test_each_record_is_a_person_where_no_column_tells(relation: NeighboringRelation) -> None:
    terms = DraftTerms(EPSILON, relation, delta=DELTA)
    worst = 0.0
    for others in itertools.product(range(terms.threshold + 2), repeat=2):
        rows = [("v", city) for city, count in zip("ab", others, strict=True) for _ in range(count)]
        found = [told(frame_of([*rows, *own]), terms, "ab") for own in ([], [("v", "a")], [("v", "b")])]
        pairs = (
            [(found[0], one) for one in found] if relation is ADDED else [*itertools.product(found, found)]
        )
        worst = max(worst, *(max(excess(one, other, 1), excess(other, one, 1)) for one, other in pairs))
    assert worst == pytest.approx(some_of_one_person(terms))
    assert worst <= DELTA


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


def test_a_threshold_of_two_persons_is_the_least() -> None:
    assert DraftTerms(Fraction(1000), ADDED, delta=Fraction(9, 10)).threshold == 2


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


# --- the contract ------------------------------------------------------------------------------------------

FRAME = frame_of([(f"p{place}", "Oslo") for place in range(300)])
DOMAIN = Domain((CategoricalAttribute("city", ("Oslo",), missing=True, other=True),), name="t")
CHARGE = DraftTerms(Fraction(1, 10), ADDED, 1, "id", Fraction(1, 10**9)).charge("keys of city")


def test_the_contract_tells_the_delta_of_keys_and_of_the_session_together(tmp_path: Path) -> None:
    options = pmw.Options(drafts=(CHARGE,), person_column="id")
    path = tmp_path / "s.pmw"
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    opened = pmw.open_session(tmp_path / "t.csv", DOMAIN, epsilon=1, delta=2e-9, path=path, options=options)
    with opened, pytest.raises(pmw.PMWError):
        pmw.open_session(tmp_path / "t.csv", DOMAIN, epsilon=1, delta=2e-9, path=path, options=options)
    with pmw.resume_session(path) as session:
        assert "epsilon = 1.1, delta = 3e-09 (epsilon = 1, delta = 2e-09 in the session and " in guarantee(
            session.state.contract
        )
        assert session.state.contract.options.drafts == (CHARGE,)


def test_a_session_without_a_delta_takes_no_draft_that_has_one() -> None:
    options = pmw.Options(drafts=(CHARGE,), person_column="id")
    with pytest.raises(BudgetError, match="open it with a delta above 0"):
        pmw.open_session(FRAME, DOMAIN, epsilon=1, options=options)


def test_drafts_that_read_ids_otherwise_are_refused() -> None:
    """``7`` and ``07`` were two persons to the draft, and are one to the session."""
    domain = Domain(DOMAIN.attributes, name="t", person=Person("id", 1, ids="integer"))
    with pytest.raises(BudgetError, match="tell ids apart as texts"):
        pmw.open_session(FRAME, domain, epsilon=1, delta=1e-9, options=pmw.Options(drafts=(CHARGE,)))
