"""Sessions about persons: the records that are kept of each, under one key, and their numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
from pmw.data import MemoryLimit, MemorySource, as_source
from pmw.data.memory import frame_parts
from pmw.data.people import Bound
from pmw.errors import BudgetError, BudgetExhaustedError, DataError
from pmw.planning.opening import (
    PERSONS_SHARE,
    choose_filter,
    opening_persons,
    plan_opening,
)
from pmw.privacy.budget import Budget, NeighboringRelation
from pmw.privacy.random_bits import BitSource, repeatable_seed
from pmw.public.charges import Event, PersonNumbers, opening_entries
from pmw.public.contract import Contract, agreed, guarantee
from pmw.public.options import Options, TestKind
from pmw.public.quotes import affordable_price
from pmw.session import releases
from queries import CategoricalAttribute, Domain, IntegerAttribute, QueryError
from queries.factors import UNITS
from queries.person import Person
from tests.pmw.session.stored import execute, secrets_of
from tests.worlds import ends, opened

KEY = bytes(range(32))
ATTRIBUTES = (CategoricalAttribute("region", ("n", "s", "w")), IntegerAttribute("visit", 0, 9))
NORTH = "WHERE region = 'n'"
EVERYBODY = "SELECT COUNT(DISTINCT id) FROM trips"
BY_REGION = "SELECT region, COUNT(DISTINCT id) AS n FROM trips GROUP BY region"


def domain_of(records: int, **choices: Any) -> Domain:
    return Domain(ATTRIBUTES, name="trips", person=Person("id", records, **choices))


def table(persons: int = 2000, records: int = 6000) -> pd.DataFrame:
    draw = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "id": draw.integers(0, persons, records),
            "region": draw.choice(["n", "s", "w"], records, p=[0.6, 0.3, 0.1]),
            "visit": draw.integers(0, 10, records),
        }
    )


FRAME = table()


def open_trips(path: Path | None = None, *, records: int = 3, epsilon: float = 2, **choices: Any) -> Any:
    return opened(
        FRAME, domain_of(records), path, epsilon=epsilon, **{"seed": None if path else 4, **choices}
    )


def true_heads(session: pmw.Session, scope: Sequence[str]) -> NDArray[np.int64]:
    return session._engine._table(session.state.contract).persons(scope).counts


# --- what one person moves ---------------------------------------------------------------------------------


def heads_of(people: Sequence[Sequence[str]], records: int, scope: Sequence[str]) -> NDArray[np.int64]:
    """Return the persons by a scope of a table of so many persons' records, as a source counts them."""
    rows = [(f"p{number}", region) for number, regions in enumerate(people) for region in regions]
    frame = pd.DataFrame(rows, columns=["id", "region"]).assign(visit=0)
    source = as_source(frame, domain_of(records), KEY)
    return (source.counts if records == 1 else source.persons)(scope).counts.reshape(-1)


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("scope", [(), ("region",)])
def test_one_person_moves_numbers_of_persons_by_what_is_charged(
    relation: NeighboringRelation, records: int, scope: tuple[str, ...]
) -> None:
    """All records of a person, at most one more than are kept of it, beside nobody and beside somebody."""
    lists = [
        regions
        for size in range(records + 2)
        for regions in itertools.combinations_with_replacement("nsw", size)
    ]
    options = Options(neighboring_relation=relation, records_per_person=records)
    moved = []
    for before in ([], [("n", "s")]):
        found = {one: heads_of([*before, one], records, scope) for one in lists}
        if relation is NeighboringRelation.ADD_REMOVE:
            moved += [found[one] - heads_of(before, records, scope) for one in lists]
        else:  # another id is another person: what is kept of it depends on the id
            other = {one: heads_of([*before, (), one], records, scope) for one in lists}
            moved += [found[one] - other[two] for one in lists for two in lists]
    sensitivity = PersonNumbers(scope, 3 if scope else 1).sensitivity(options)
    assert max(int(np.abs(one).sum()) for one in moved) == sensitivity.l1 // UNITS
    assert max(int((one**2).sum()) for one in moved) == sensitivity.l2_squared // UNITS**2


# --- what is counted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["person", "drop"])
def test_persons_are_counted_part_by_part_in_memory_and_in_a_file(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = FRAME.iloc[:1000].assign(id=FRAME["id"].where(FRAME.index % 19 > 0).astype("Int64"))
    domain = domain_of(1000, empty=empty)
    monkeypatch.setattr("pmw.data.scratch._FEWEST_RECORDS", 50)
    monkeypatch.setattr("pmw.data.packed._STORED_RECORDS", 70)
    monkeypatch.setattr("pmw.data.packed._SORTED_AT_ONCE", 300)
    parts = list(frame_parts([frame.iloc[start : start + 37] for start in range(0, 1000, 37)], domain))
    own = frame["id"].isna() if empty == "person" else frame["id"].isna() & False
    for limit in (None, MemoryLimit(1)):
        source = MemorySource.from_parts(parts, domain, KEY, limit)
        assert source.persons(()).total == frame["id"].nunique() + own.sum()
        by_region = frame.groupby("region")["id"].nunique() + frame[own].groupby("region").size().reindex(
            list("nsw"), fill_value=0
        )
        assert source.persons(("region",)).counts.tolist() == by_region.tolist()


def test_a_table_that_does_not_tell_persons_apart_is_refused_in_words() -> None:
    for domain in (Domain(ATTRIBUTES, name="trips"), domain_of(1)):
        source = as_source(FRAME, domain, None if domain.person is None else KEY)
        assert not source.counts_persons
        with pytest.raises(DataError, match="only in tables that are read into this program"):
            source.persons(("region",))


# --- opening -----------------------------------------------------------------------------------------------


def test_whether_it_does_follows_from_public_numbers() -> None:
    budget = Budget(Fraction(1), Fraction(1, 10**9))

    def noise(total: float, records: int = 3, **choices: Any) -> Any:
        domain = domain_of(records)
        options = Options(records_per_person=records, person_column="id", **choices)
        return opening_persons(domain, choose_filter(domain, budget, options), options, total)

    width = 1.96 * 2**0.5 / float(PERSONS_SHARE)  # about, of Laplace noise
    assert noise(20 * width) is not None
    assert noise(width) is None
    assert noise(20 * width, records=1) is None
    assert noise(20 * width, simultaneous=True) is None
    assert noise(20 * width, opening=pmw.Opening.NONE) is None
    assert noise(20 * width, test=TestKind.QUERY) is None


# --- on request --------------------------------------------------------------------------------------------


def test_persons_by_group_are_measured_on_request() -> None:
    with open_trips(epsilon=50) as session:
        (line,) = [line for line in session.ledger().lines if line.event == Event.PERSONS]
        assert line.label == "everybody"  # which opening counts, as an event of its own
        assert 0.9 * PERSONS_SHARE < line.share <= PERSONS_SHARE
        (found,) = session.sql(EVERYBODY).estimates()
        low, high = ends(found)
        assert low <= true_heads(session, ()).item() <= high
        before, whole = session.state.ledger.spent, session.sql(BY_REGION)
        quote = session.measure_heads("region", dry_run=True)
        assert session.state.ledger.spent == before
        assert session.measure_heads("region") == quote
        spent = session.state.ledger.spent - before
        assert float(spent / session.state.ledger.cap) == pytest.approx(quote.share, rel=1e-12)
        assert quote.cells == 3
        truth, found = true_heads(session, ("region",)), session.sql(BY_REGION)
        for true, one, other in zip(truth, found.column("n"), whole.column("n"), strict=True):
            assert one.interval[0] <= true <= one.interval[1]
            assert one.interval[1] - one.interval[0] < other.interval[1] - other.interval[0]
        alike = (f"{EVERYBODY} WHERE region = 'n'", EVERYBODY.replace(" FROM", f" FILTER ({NORTH}) FROM"))
        for statement in alike:
            (one,) = session.sql(statement).estimates()
            assert one.interval == found.column("n")[0].interval
        (part,) = session.sql(f"{EVERYBODY} WHERE region = 'n' AND visit < 1").estimates()
        assert ends(part)[0] <= true_heads(session, ("region", "visit"))[0, 0] <= ends(part)[1]
        assert ends(part)[1] <= found.column("n")[0].interval[1]


@pytest.mark.statistical
def test_bars_of_persons_hold() -> None:
    held = []
    for seed in range(24):
        with open_trips(seed=seed, epsilon=1) as session:
            session.measure_heads("region", share="0.03")
            truth = [*true_heads(session, ("region",)), true_heads(session, ()).item()]
            found = [*session.sql(BY_REGION).column("n"), *session.sql(EVERYBODY).estimates()]
            bars = [one.interval for one in found]
            held += [low <= true <= high for true, (low, high) in zip(truth, bars, strict=True)]
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize("opening", [pmw.Opening.ONE_WAY, pmw.Opening.PAIRS])
def test_no_bits_of_an_opening_are_drawn_from_twice(
    opening: pmw.Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of records, attributes, sums and persons are drawn one after the other, from one seed."""
    attributes = (*ATTRIBUTES, IntegerAttribute("cost", 0, 99, 5, resolution=1))
    domain = Domain(attributes, name="trips", person=Person("id", 3))
    options = Options(records_per_person=3, person_column="id", opening=opening)
    contract = Contract(domain, Budget.of(2, "1e-9"), options)
    plan = plan_opening(domain, choose_filter(domain, contract.budget, options), options)
    source = as_source(FRAME.assign(cost=FRAME["visit"]), domain, KEY)
    refill, blocks = BitSource._refill, list[tuple[bytes, int]]()

    def noting(bits: BitSource) -> None:
        blocks.append((bits._seed, bits._counter))
        refill(bits)

    monkeypatch.setattr(BitSource, "_refill", noting)
    seed = repeatable_seed(5, 1)
    outcome = releases.opened(contract, plan, source, BitSource(seed))
    assert {row.kind for row in outcome.measurements} >= {"total", "numbers of persons"}
    assert blocks == [(seed, number) for number in range(len(blocks))]
    assert blocks


def test_what_cannot_be_measured_is_refused_and_costs_nothing() -> None:
    refused: list[tuple[int, Callable[[pmw.Session], Any], type[Exception], str]] = [
        (1, lambda s: s.measure_heads("region"), QueryError, "numbers of records are numbers of persons"),
        (3, lambda s: s.measure_heads("street"), Exception, "street"),
        (3, lambda s: s.measure_heads("region", share=0), BudgetError, "above 0"),
        (3, lambda s: s.measure_heads("region", share=2), BudgetError, "at most 1"),
        (3, lambda s: s.measure_heads("region", share="0.9"), BudgetExhaustedError, "costs 90"),
    ]
    with open_trips(records=1) as one, open_trips(records=3) as several:
        for records, asked, error, message in refused:
            session = one if records == 1 else several
            before = session.state.ledger.spent
            with pytest.raises(error, match=message):
                asked(session)
            assert session.state.ledger.spent == before


def test_what_an_open_round_has_reserved_is_not_left_for_persons() -> None:
    more = (IntegerAttribute("age", 0, 19), IntegerAttribute("cost", 0, 19))
    domain = Domain((*ATTRIBUTES, *more), name="trips", person=Person("id", 3))
    frame = FRAME.assign(age=FRAME.index % 20, cost=FRAME.index * 7 % 20)
    with opened(frame, domain, epsilon=2, seed=4) as session:
        for visit in range(10):
            session.ask(f"visit = {visit} AND region = 'n' AND age < 9 AND cost > 3")
            if session.state.round_open:
                break
        state = session.state
        left, whole = affordable_price(state), state.ledger.remaining
        assert left < whole * Fraction(99, 100)
        share = (left + whole) / 2 / state.ledger.cap
        assert not session.measure_heads("region", share=share, dry_run=True).affordable
        assert session.measure_heads("region", share=left / state.ledger.cap, dry_run=True).affordable
        with pytest.raises(BudgetExhaustedError, match="nothing was spent"):
            session.measure_heads("region", share=share)
        assert session.state.ledger == state.ledger


VISITED = (CategoricalAttribute("sex", ("f", "m")), IntegerAttribute("visit", 0, 9))
KEYS = ("person_key", "fingerprint_key", "fingerprint")


def visits(people: int = 60, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    ids = np.repeat(np.arange(people), generator.integers(1, 9, people))
    return pd.DataFrame(
        {
            "patient": [f"p{one}" for one in ids],
            "sex": np.where(ids % 2, "f", "m"),
            "visit": generator.integers(0, 10, len(ids)),
        }
    )


VISITS = visits()
RELATIONS = list(NeighboringRelation)
PATIENTS = Domain(VISITED, person=Person("patient", 2))


def kept(session: pmw.Session) -> list[int]:
    source = session._engine._table(session.state.contract)
    return source.counts(PATIENTS.names).counts.ravel().tolist()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    VISITS.to_csv(tmp_path / "t.csv", index=False)
    pmw.open_session(tmp_path / "t.csv", PATIENTS, epsilon=50, path=tmp_path / "s.pmw").close()
    return tmp_path / "s.pmw"


def test_the_same_records_are_kept_after_every_reopening_and_move(path: Path) -> None:
    key = secrets_of(path)["person_key"]
    expected = as_source(VISITS, PATIENTS, key).counts(PATIENTS.names).counts.ravel().tolist()
    assert expected != as_source(VISITS, PATIENTS, bytes(32)).counts(PATIENTS.names).counts.ravel().tolist()
    for _ in range(2):
        with pmw.resume_session(path) as session:
            assert kept(session) == expected
    moved = path.with_name("moved.csv")
    VISITS.to_csv(moved, index=False, sep=";")
    pmw.move_session(path, pmw.TableFile(moved, pmw.CsvDialect(delimiter=";")))
    with pmw.resume_session(path) as session:
        assert kept(session) == expected
        assert session.state.total.value == pytest.approx(sum(expected), abs=20)
    assert secrets_of(path)["person_key"] == key


def test_the_key_is_the_sessions_own_and_goes_with_the_secrets(path: Path) -> None:
    other = path.with_name("other.pmw")
    pmw.open_session(path.with_name("t.csv"), PATIENTS, epsilon=50, path=other).close()
    found = [secrets_of(each)[name] for each in (path, other) for name in KEYS]
    assert len(set(found)) == 6
    assert {len(key) for key in found} == {32}
    key = secrets_of(path)["person_key"]
    assert pmw.verify_session(path).holds
    pmw.backup_session(path, path.with_name("copy.pmw"))
    assert "person_key" not in secrets_of(path.with_name("copy.pmw"))
    assert key not in path.with_name("copy.pmw").read_bytes()
    pmw.finalize_session(path)
    assert secrets_of(path) == {}
    assert key not in path.read_bytes()
    assert pmw.verify_session(path).holds
    assert "a" * 8 not in repr(Bound(Person("id", 2), 2, b"a" * 32))


def test_a_lost_key_is_found_by_verification_and_never_replaced(path: Path) -> None:
    execute(path, "DELETE FROM secrets WHERE key = 'person_key'")
    assert not pmw.verify_session(path).holds
    with pmw.resume_session(path) as session, pytest.raises(DataError, match="expected a key"):
        session._engine._table(session.state.contract)


# --- what is declared -------------------------------------------------------------------------------------


def test_contradictions_are_refused() -> None:
    with pytest.raises(BudgetError, match="name one column"):
        agreed(PATIENTS, Options(person_column="visitor"))
    with pytest.raises(BudgetError, match="give one number"):
        agreed(PATIENTS, Options(records_per_person=3))
    with pytest.raises(BudgetError, match="expected a name as person_column, got a pandas"):
        Options(person_column=VISITS)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="the same persons"):
        Contract(PATIENTS, pmw.Budget.of(1), Options())
    with pytest.raises(BudgetError, match="the same persons"):
        Contract(Domain(VISITED), pmw.Budget.of(1), Options(person_column="patient"))


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_guarantee_says_person_and_how_many_records(
    relation: NeighboringRelation, tmp_path: Path
) -> None:
    options = pmw.Options(neighboring_relation=relation)
    with pmw.open_session(VISITS, PATIENTS, epsilon=1, options=options) as session:
        verb = (
            "adding or removing one person" if relation is RELATIONS[0] else "replacing one person by another"
        )
        words = f"{verb}: all records with one value of 'patient'"
        ending = "of which at most 2 records are kept"
        manifest = session.export(tmp_path / "t.csv")
        texts = [
            guarantee(session.state.contract),
            pmw.plan_session(PATIENTS, records=200, epsilon=1, options=options).guarantee,
            str(session.status().to_dict()["guarantee"]),
            manifest["guarantee"],
        ]
        assert all(words in text and ending in text for text in texts)
        assert (manifest["records_per_person"], manifest["person_column"]) == (2, "patient")
        assert session.state.total.deviation > 0  # how many are kept is private under either relation
        assert session.ledger().lines[0].event == Event.TOTAL
    both, chosen = agreed(Domain(VISITED, person=Person("patient", 1, empty="person")), Options())
    contract = Contract(both, pmw.Budget.of(1), chosen)
    assert "or one record without any, of which at most one record is kept" in guarantee(contract)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("records", [1, 3])
def test_the_number_of_records_is_charged_as_one_question(
    relation: NeighboringRelation, records: int
) -> None:
    """A person moves it by at most K under either relation: 0 to K records are kept before, and after."""
    domain, options = agreed(
        Domain(VISITED),
        Options(neighboring_relation=relation, records_per_person=records, person_column="id"),
    )
    for budget in (pmw.Budget.of(1), pmw.Budget.of(1, 1e-9)):
        plan = plan_opening(domain, choose_filter(domain, budget, options), options)
        entry = opening_entries(plan, options)[0]
        noise, moved = plan.total_noise, records * UNITS
        assert noise is not None
        if entry.charge.epsilon is not None:
            assert entry.charge.epsilon == moved / noise.scale  # type: ignore[union-attr]
        else:
            exact = Fraction(moved**2) / (2 * noise.sigma**2)  # type: ignore[union-attr]
            assert exact <= entry.charge.rho <= exact * (1 + Fraction(1, 2**40))


# --- counts of people -------------------------------------------------------------------------------------


def counts(session: pmw.Session, statement: str) -> list[float]:
    """Return the numbers of a statement that counts alone."""
    return [one.value or 0.0 for one in session.sql(statement).estimates()]


def test_people_are_counted_where_one_record_of_each_is_kept() -> None:
    domain = Domain(VISITED, person=Person("patient", 1, constant=("sex",)))
    with pmw.open_session(VISITS, domain, epsilon=1000) as session:
        (everybody,) = counts(session, "SELECT COUNT(DISTINCT patient) FROM records")
        assert everybody == pytest.approx(60, abs=1)
        for name in ("COUNT(DISTINCT records.patient) AS n", "count(distinct PATIENT) n"):
            assert counts(session, f"SELECT {name} FROM records") == [everybody]
        women = counts(session, "SELECT COUNT(DISTINCT patient) FROM records WHERE sex = 'f'")
        assert women[0] == pytest.approx(30, abs=1)
        by_sex = counts(session, "SELECT sex, COUNT(DISTINCT patient) FROM records GROUP BY sex")
        assert [round(one) for one in by_sex] == [30, 30]
        beside = (
            "SELECT sex, COUNT(DISTINCT patient) AS n, AVG(visit) FROM records GROUP BY sex ORDER BY n DESC"
        )
        assert sorted(one.value for one in session.sql(beside).column("n")) == sorted(by_sex)
        before, of_one = session.ledger().spent, "condition on 'visit' would count the people whose kept"
        for statement, message in (
            ("SELECT COUNT(DISTINCT patient) FILTER (WHERE visit > 3) FROM records", of_one),
            ("SELECT visit, COUNT(DISTINCT patient) FROM records GROUP BY visit", of_one),
            ("SELECT COUNT(DISTINCT patient) FROM records WHERE sex = 'f' AND visit = 3", of_one),
            ("SELECT COUNT(DISTINCT visit) FROM records", "is not supported"),
            ("SELECT COUNT(DISTINCT patient, sex) FROM records", "unknown attribute 'patient'"),
            ('SELECT COUNT(DISTINCT "PATIENT") FROM records', "unknown attribute 'PATIENT'"),
            ("SELECT COUNT(patient) FROM records", "unknown attribute 'patient'"),
        ):
            with pytest.raises(QueryError, match=message):
                session.sql(statement)
        assert session.ledger().spent == before


def test_an_offline_release_keeps_as_many_records() -> None:
    options = pmw.OfflineOptions(policy=pmw.Options(seed=1))
    release = pmw.fit_workload(VISITS, PATIENTS, [("sex", "visit")], epsilon=1000, options=options)
    expected = np.minimum(VISITS["patient"].value_counts(), 2).sum()
    assert release.state.total.value == pytest.approx(expected, abs=1)
    assert "(of the records kept: at most 2 of each patient)" in release.answer("").sentence()
    assert "at most 2 records are kept" in guarantee(
        pmw.fit_workload(VISITS, PATIENTS, [("sex",)], epsilon=1).state.contract
    )
