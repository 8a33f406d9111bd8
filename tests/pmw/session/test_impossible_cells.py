"""Sessions over a schema with impossible conditions: what is dropped, answered, drawn, told and refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data.memory import MemorySource
from pmw.privacy.random_bits import SEED_BYTES
from pmw.public.state import PublicState
from pmw.public.status import contradicted, status_of, status_rows
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, rule_out
from queries.person import Person
from tests.worlds import ends

CHILD = "age < 16 AND married = 'yes'"
PLAIN = Domain(
    (
        IntegerAttribute("age", 0, 39),
        CategoricalAttribute("married", ("no", "yes")),
        CategoricalAttribute("sex", ("f", "m")),
    ),
    name="people",
)
DOMAIN = rule_out(PLAIN, CHILD)


def table(records: int = 4000) -> pd.DataFrame:
    """Return records of which a few are impossible."""
    generator = np.random.default_rng(7)
    age = generator.integers(0, 40, records)
    is_married = generator.random(records) < np.where(age < 16, 0.05, 0.6)
    sex = generator.choice(["f", "m"], records)
    return pd.DataFrame({"age": age, "married": np.where(is_married, "yes", "no"), "sex": sex})


FRAME = table()
INSIDE = (FRAME.age < 16) & (FRAME.married == "yes")
OPTIONS = pmw.Options(seed=5)


def opened(domain: Domain = DOMAIN, options: pmw.Options = OPTIONS, path: Path | None = None) -> pmw.Session:
    """Open a session over the records."""
    return pmw.open_session(FRAME, domain, epsilon=1, delta=1e-9, options=options, path=path)


# --- what is counted ---------------------------------------------------------------------------------------


def test_impossible_records_are_in_no_count() -> None:
    source = MemorySource.from_frame(FRAME, DOMAIN)
    counts = source.counts(DOMAIN.names).counts
    np.testing.assert_array_equal(counts[:16, 1], 0)
    possible = MemorySource.from_frame(FRAME[~INSIDE], PLAIN)
    np.testing.assert_array_equal(counts, possible.counts(PLAIN.names).counts)
    assert source.fingerprint(bytes(32)) != possible.fingerprint(bytes(32))  # of another schema


def test_an_impossible_record_takes_no_place_of_its_persons() -> None:
    """Records are dropped before a person's are bounded: which one is kept does not depend on those."""
    frame = pd.DataFrame(
        {"age": [3, 30] * 200, "married": "yes", "sex": "f", "id": np.repeat(np.arange(200), 2)}
    )
    domain = replace(DOMAIN, person=Person("id", records=1))
    for first in range(4):
        source = MemorySource.from_frame(frame, domain, bytes([first]) * SEED_BYTES)
        counts = source.counts(("age",)).counts
        assert (counts[3], counts[30]) == (0, 200)


def test_a_line_that_cannot_be_read_is_dropped_where_undeclared_values_are_impossible() -> None:
    from pmw.data.memory import holds_malformed

    attribute = CategoricalAttribute("sex", ("f", "m"), other=True)
    both = Domain((attribute, replace(attribute, name="other sex")))
    assert holds_malformed(both)
    ruled = rule_out(both, "NOT (sex IN ('f', 'm'))")
    assert ruled.impossible[0].inside[attribute.other_code] == (not holds_malformed(ruled))


# --- answers -----------------------------------------------------------------------------------------------


def test_a_question_about_impossible_cells_is_answered_with_zero_exactly() -> None:
    with opened() as session:
        spent = session.status().budget_share
        for where in (CHILD, f"{CHILD} AND sex = 'f'", "age = 3 AND married = 'yes'"):
            answer = session.ask(where)
            assert (answer.count, answer.interval) == (0, (0, 0)), where
        assert session.status().budget_share == spent


@pytest.mark.parametrize(
    "where", ["age < 20 AND married = 'yes'", "age > 12 AND age < 30 AND sex = 'f'", "age > 9"]
)
def test_answers_are_those_of_the_possible_part_among_possible_records(where: str) -> None:
    """The same noise falls on the same counts, so both are equal to the last bit."""
    part = where.replace("age < 20", "age >= 16 AND age < 20")
    with (
        opened() as session,
        pmw.open_session(FRAME[~INSIDE], PLAIN, epsilon=1, delta=1e-9, options=OPTIONS) as possible,
    ):
        assert ends(session.ask(where)) == ends(possible.ask(part))


@pytest.mark.parametrize(
    "aggregate",
    ["AVG(age)", "SUM(age)", "STDDEV_POP(age)", "MEDIAN(age)", "SUM(CASE WHEN sex = 'f' THEN 2 END)"],
)
def test_aggregates_of_groups_are_those_of_their_possible_part(aggregate: str) -> None:
    ask = f"SELECT married, {aggregate} AS x FROM people WHERE %s GROUP BY married"
    with (
        opened() as session,
        pmw.open_session(FRAME[~INSIDE], PLAIN, epsilon=1, delta=1e-9, options=OPTIONS) as possible,
    ):
        married = session.sql(ask % "age < 20").to_dict()["rows"][1]
        part = possible.sql(ask % "age >= 16 AND age < 20").to_dict()["rows"][1]
    assert married == part


def test_ranges_as_arrays_get_what_each_gets_alone() -> None:
    first, last = [[10, 1], [10, 0], [3, 1], [16, 1]], [[18, 1], [18, 0], [9, 1], [39, 1]]
    with opened() as session:
        together = session.answer_arrays(["age", "married"], first, last)
        for place, (low, high) in enumerate(zip(first, last, strict=True)):
            ranges = {"age": (low[0], high[0]), "married": (low[1], high[1])}
            alone = session.ask(LinearQuery.cells(DOMAIN, ranges))
            assert together[place].to_dict() == alone.to_dict()
        assert together.count[2] == 0


# --- rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("opening", [pmw.Opening.ONE_WAY, pmw.Opening.PAIRS])
def test_no_row_is_impossible(opening: pmw.Opening, independent: bool) -> None:
    with opened(options=pmw.Options(seed=3, opening=opening)) as session:
        rows = session.synthetic_records(3000, seed=1, independent=independent)
        some = session.synthetic_records(300, seed=1, where="age < 18", independent=independent)
    for drawn, count in ((rows, 3000), (some, 300)):
        assert len(drawn) == count
        assert not ((drawn.age < 16) & (drawn.married == "yes")).any()
    assert (some.age < 18).all()


# --- what is told, and refused -----------------------------------------------------------------------------


def state_by(domain: Domain) -> PublicState:
    """Return the state of a session over all records, as if its schema were another one."""
    with opened(PLAIN, pmw.Options(seed=3, opening=pmw.Opening.PAIRS)) as session:
        state = session.state
    return replace(state, contract=replace(state.contract, domain=domain))


def test_a_condition_that_released_numbers_contradict_is_told() -> None:
    domain = rule_out(PLAIN, "age >= 16 AND married = 'yes'", "age = 0")
    state = state_by(domain)
    assert contradicted(state) == tuple(one.where for one in domain.impossible)
    form = status_of(state, 0).to_dict()
    assert form["impossible"] == form["contradicted"] == [one.where for one in domain.impossible]
    told = dict(status_rows(state.contract, status_of(state, 0)))
    assert told["impossible"].endswith(": released numbers say that some records satisfy it")


@pytest.mark.parametrize("is_contradicted", [False, True])
def test_a_report_names_the_conditions_and_those_that_are_contradicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_contradicted: bool
) -> None:
    if is_contradicted:
        monkeypatch.setattr("pmw.public.status.contradicted", lambda state: (CHILD,))
    with opened() as session, opened(PLAIN) as plain:
        session.report(tmp_path / "of.html")
        plain.report(tmp_path / "plain.html")
    page = (tmp_path / "of.html").read_text()
    assert "By the schema no record satisfies" in page
    assert ("Released numbers say that some do" in page) is is_contradicted
    assert "By the schema" not in (tmp_path / "plain.html").read_text()


def test_replace_one_refuses_conditions_for_records_would_be_dropped() -> None:
    whole = Domain(tuple(replace(one, missing=True, other=True) for one in PLAIN), name="people")
    options = replace(OPTIONS, neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE)
    opened(whole, options).close()
    with pytest.raises(pmw.BudgetError, match=r"satisfy an \[\[impossible\]\] condition"):
        opened(rule_out(whole, CHILD), options)


def test_records_are_not_counted_inside_a_database(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("given", FRAME)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    place = pmw.DatabaseTable(f"duckdb:{tmp_path / 'people.duckdb'}", "people", inside=True)
    with pytest.raises(pmw.DataError, match="impossible by the schema are dropped where the table is read"):
        pmw.open_session(place, DOMAIN, epsilon=1, delta=1e-9, options=OPTIONS)
