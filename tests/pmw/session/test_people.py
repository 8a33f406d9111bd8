"""Sessions about people: the same kept records in every question and after every reopening, under one key."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import as_source
from pmw.errors import BudgetError, DataError
from pmw.planning.opening import choose_filter, plan_opening
from pmw.privacy.budget import NeighboringRelation
from pmw.public.charges import Event, opening_entries
from pmw.public.contract import Contract, agreed, guarantee
from pmw.public.options import Options
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    QueryError,
)
from queries.factors import UNITS
from queries.person import Person
from tests.pmw.session.stored import execute, secrets_of

ATTRIBUTES = (CategoricalAttribute("sex", ("f", "m")), IntegerAttribute("visit", 0, 9))
KEYS = ("person_key", "fingerprint_key", "fingerprint")
RELATIONS = list(NeighboringRelation)


def table(people: int = 60, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    ids = np.repeat(np.arange(people), generator.integers(1, 9, people))
    return pd.DataFrame(
        {
            "patient": [f"p{one}" for one in ids],
            "sex": np.where(ids % 2, "f", "m"),
            "visit": generator.integers(0, 10, len(ids)),
        }
    )


FRAME = table()
DOMAIN = Domain(ATTRIBUTES, person=Person("patient", 2))


def kept(session: pmw.Session) -> list[int]:
    source = session._engine._table(session.state.contract)
    return source.counts(DOMAIN.names).counts.ravel().tolist()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    pmw.open_session(tmp_path / "t.csv", DOMAIN, epsilon=50, path=tmp_path / "s.pmw").close()
    return tmp_path / "s.pmw"


def test_the_same_records_are_kept_after_every_reopening_and_move(path: Path) -> None:
    key = secrets_of(path)["person_key"]
    expected = as_source(FRAME, DOMAIN, key).counts(DOMAIN.names).counts.ravel().tolist()
    assert expected != as_source(FRAME, DOMAIN, bytes(32)).counts(DOMAIN.names).counts.ravel().tolist()
    for _ in range(2):
        with pmw.resume_session(path) as session:
            assert kept(session) == expected
    moved = path.with_name("moved.csv")
    FRAME.to_csv(moved, index=False, sep=";")
    pmw.move_session(path, pmw.TableFile(moved, pmw.CsvDialect(delimiter=";")))
    with pmw.resume_session(path) as session:
        assert kept(session) == expected
        assert session.state.total.value == pytest.approx(sum(expected), abs=20)
    assert secrets_of(path)["person_key"] == key


def test_each_session_has_keys_of_its_own(path: Path) -> None:
    other = path.with_name("other.pmw")
    pmw.open_session(path.with_name("t.csv"), DOMAIN, epsilon=50, path=other).close()
    found = [secrets_of(each)[name] for each in (path, other) for name in KEYS]
    assert len(set(found)) == 6
    assert {len(key) for key in found} == {32}


def test_the_key_goes_with_the_secrets(path: Path) -> None:
    key = secrets_of(path)["person_key"]
    assert pmw.verify_session(path).holds
    pmw.backup_session(path, path.with_name("copy.pmw"))
    assert "person_key" not in secrets_of(path.with_name("copy.pmw"))
    assert key not in path.with_name("copy.pmw").read_bytes()
    pmw.finalize_session(path)
    assert secrets_of(path) == {}
    assert key not in path.read_bytes()
    assert pmw.verify_session(path).holds


def test_a_lost_key_is_found_by_verification_and_never_replaced(path: Path) -> None:
    execute(path, "DELETE FROM secrets WHERE key = 'person_key'")
    assert not pmw.verify_session(path).holds
    with pmw.resume_session(path) as session, pytest.raises(DataError, match="expected a key"):
        session._engine._table(session.state.contract)


@pytest.mark.parametrize("change", ["ids", "left out"])
def test_another_table_is_refused(path: Path, change: str) -> None:
    frame = FRAME.copy()
    if change == "ids":
        frame["patient"] = frame["patient"].map(lambda one: "p1" if one == "p0" else one)
    else:  # a record that is not kept: a person of eight records has six of these
        place = frame.index[frame["patient"] == frame["patient"].value_counts().index[0]]
        frame.loc[place, "visit"] = 9 - frame.loc[place, "visit"]
    frame.to_csv(path.with_name("t.csv"), index=False)
    with pmw.resume_session(path) as session, pytest.raises(DataError, match="the table differs"):
        session._engine._table(session.state.contract)


# --- what is declared -------------------------------------------------------------------------------------


def test_contradictions_are_refused() -> None:
    with pytest.raises(BudgetError, match="name one column"):
        agreed(DOMAIN, Options(person_column="visitor"))
    with pytest.raises(BudgetError, match="give one number"):
        agreed(DOMAIN, Options(records_per_person=3))
    with pytest.raises(BudgetError, match="expected a name as person_column, got a pandas"):
        Options(person_column=FRAME)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="the same persons"):
        Contract(DOMAIN, pmw.Budget.of(1), Options())
    with pytest.raises(BudgetError, match="the same persons"):
        Contract(Domain(ATTRIBUTES), pmw.Budget.of(1), Options(person_column="patient"))


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_guarantee_says_person_and_how_many_records(
    relation: NeighboringRelation, tmp_path: Path
) -> None:
    options = pmw.Options(neighboring_relation=relation)
    with pmw.open_session(FRAME, DOMAIN, epsilon=1, options=options) as session:
        verb = (
            "adding or removing one person" if relation is RELATIONS[0] else "replacing one person by another"
        )
        words = f"{verb}: all records with one value of 'patient'"
        ending = "of which at most 2 records are kept"
        texts = [
            guarantee(session.state.contract),
            pmw.plan_session(DOMAIN, records=200, epsilon=1, options=options).guarantee,
            str(session.status().to_dict()["guarantee"]),
        ]
        manifest = session.export(tmp_path / "t.csv")
        assert all(words in text and ending in text for text in (*texts, manifest["guarantee"]))
        assert (manifest["records_per_person"], manifest["person_column"]) == (2, "patient")
    own = Domain(ATTRIBUTES, person=Person("patient", 1, empty="person"))
    both, chosen = agreed(own, options)
    contract = Contract(both, pmw.Budget.of(1), chosen)
    assert "or one record without any, of which at most one record is kept" in guarantee(contract)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_the_number_of_kept_records_is_private_under_either_relation(
    relation: NeighboringRelation, delta: float
) -> None:
    options = pmw.Options(neighboring_relation=relation)
    # No attribute declares missing or other: records may be dropped.
    with pmw.open_session(FRAME, DOMAIN, epsilon=1, delta=delta, options=options) as session:
        assert session.state.total.deviation > 0
        assert session.ledger().lines[0].event == Event.TOTAL
    with pytest.raises(BudgetError, match="no record may be dropped"):
        pmw.open_session(
            FRAME,
            Domain(ATTRIBUTES),
            epsilon=1,
            options=pmw.Options(neighboring_relation=NeighboringRelation.REPLACE_ONE),
        )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("records", [1, 3])
def test_the_number_of_records_is_charged_as_one_question(
    relation: NeighboringRelation, records: int
) -> None:
    """A person moves it by at most K under either relation: 0 to K records are kept before, and after."""
    domain, options = agreed(
        Domain(ATTRIBUTES),
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
    domain = Domain(ATTRIBUTES, person=Person("patient", 1, constant=("sex",)))
    with pmw.open_session(FRAME, domain, epsilon=1000) as session:
        (everybody,) = counts(session, "SELECT COUNT(DISTINCT patient) FROM records")
        assert everybody == pytest.approx(60, abs=1)
        for name in (
            "COUNT(DISTINCT records.patient) AS n",
            'COUNT(DISTINCT "patient") n',
            "count(distinct PATIENT) n",
        ):
            assert counts(session, f"SELECT {name} FROM records") == [everybody]
        women = counts(session, "SELECT COUNT(DISTINCT patient) FROM records WHERE sex = 'f'")
        assert women[0] == pytest.approx(30, abs=1)
        by_sex = counts(session, "SELECT sex, COUNT(DISTINCT patient) FROM records GROUP BY sex")
        assert [round(one) for one in by_sex] == [30, 30]
        beside = (
            "SELECT sex, COUNT(DISTINCT patient) AS n, AVG(visit) FROM records GROUP BY sex ORDER BY n DESC"
        )
        assert sorted(one.value for one in session.sql(beside).column("n")) == sorted(by_sex)
        before = session.ledger().spent
        for statement in (
            "SELECT COUNT(DISTINCT patient) FILTER (WHERE visit > 3) FROM records",
            "SELECT COUNT(DISTINCT patient) FROM records WHERE visit > 3",
            "SELECT visit, COUNT(DISTINCT patient) FROM records GROUP BY visit",
            "SELECT COUNT(DISTINCT patient) FROM records WHERE sex = 'f' AND visit = 3",
        ):
            with pytest.raises(QueryError, match="condition on 'visit' would count the people whose kept"):
                session.sql(statement)
        for statement in (
            "SELECT COUNT(DISTINCT visit) FROM records",
            "SELECT COUNT(DISTINCT patient, sex) FROM records",
            'SELECT COUNT(DISTINCT "PATIENT") FROM records',
            "SELECT COUNT(patient) FROM records",
        ):
            with pytest.raises(QueryError, match=r"is not supported|unknown attribute"):
                session.sql(statement)
        assert session.ledger().spent == before


def test_an_offline_release_keeps_as_many_records() -> None:
    options = pmw.OfflineOptions(policy=pmw.Options(seed=1))
    release = pmw.fit_workload(FRAME, DOMAIN, [("sex", "visit")], epsilon=1000, options=options)
    expected = np.minimum(FRAME["patient"].value_counts(), 2).sum()
    assert release.state.total.value == pytest.approx(expected, abs=1)
    assert "(of the records kept: at most 2 of each patient)" in release.answer("").sentence()
    assert "at most 2 records are kept" in guarantee(
        pmw.fit_workload(FRAME, DOMAIN, [("sex",)], epsilon=1).state.contract
    )
