"""Idempotency keys of measurements: one key measures and charges once, whatever happens in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.planning import mean_quotes, row_quotes
from pmw.public.quotes import Quote
from pmw.session.dialogue import Dialogue
from pmw.session.maintenance import backup_session, read_ledger
from queries import CategoricalAttribute, Domain, IntegerAttribute, QueryError
from queries.parsing import parse_sql
from queries.person import Person
from tests.pmw.session.stored import bytes_of, cut_off, execute, failed, pending_of, tamper, unwritable
from tests.worlds import opened

Measure: TypeAlias = Callable[..., Quote]

DOMAIN = Domain(
    (
        CategoricalAttribute("region", ("n", "s", "w")),
        CategoricalAttribute("kind", ("a", "b")),
        IntegerAttribute("visit", 0, 9, resolution=1),
        IntegerAttribute("age", 0, 99),  # so many cells that they are not all measured at opening
    ),
    name="trips",
    person=Person("id", 3),
)
_DRAW = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "id": _DRAW.integers(0, 1000, 3000),
        "region": _DRAW.choice(["n", "s", "w"], 3000, p=[0.6, 0.3, 0.1]),
        "kind": _DRAW.choice(["a", "b"], 3000),
        "visit": _DRAW.integers(0, 10, 3000),
        "age": _DRAW.integers(0, 100, 3000),
    }
)

# Requests of each kind: the first and the second are one, told in two ways, and the others are others.
REQUESTS: dict[str, list[Measure]] = {
    "counts": [
        lambda session, **given: session.measure(["region", "kind"], **given),
        lambda session, **given: session.measure(("kind", "region"), **given),
        lambda session, **given: session.measure("region", **given),
    ],
    "sums": [
        lambda session, **given: session.measure_sum("visit", ["region", "kind"], within="30%", **given),
        lambda session, **given: session.measure_sum("visit", ("kind", "region"), within="30.0%", **given),
        lambda session, **given: session.measure_sum("visit", ["region", "kind"], **given),
        lambda session, **given: session.measure_sum("visit", ["region", "kind"], within=0.3, **given),
        lambda session, **given: session.measure_sum("visit", ["region", "kind"], share=0.01, **given),
        lambda session, **given: session.measure_sum("visit", "region", within="30%", **given),
        lambda session, **given: session.measure_sum(
            "visit", ["region", "kind"], within="30%", squares=True, **given
        ),
    ],
    "persons": [
        lambda session, **given: session.measure_heads(["region", "kind"], share=0.02, **given),
        lambda session, **given: session.measure_heads(("kind", "region"), share="1/50", **given),
        lambda session, **given: session.measure_heads(["region", "kind"], **given),
        lambda session, **given: session.measure_heads(share=0.02, **given),
    ],
}
COUNTS = REQUESTS["counts"][0]
GROUPS = parse_sql("SELECT region, COUNT(*) FROM trips GROUP BY region", DOMAIN)


def open_trips(path: Path | None = None) -> pmw.Session:
    return opened(FRAME, DOMAIN, path, epsilon=4, seed=None if path else 4)


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """Open a session over a table in a file, and return its path."""
    FRAME.to_csv(tmp_path / "trips.csv", index=False)
    path, options = tmp_path / "trips.pmw", pmw.Options(opening=pmw.Opening.ONE_WAY)
    pmw.open_session(
        tmp_path / "trips.csv", DOMAIN, epsilon=4, delta=1e-9, path=path, options=options
    ).close()
    return path


def charges(session: pmw.Session) -> int:
    return len(session.ledger().lines)


def test_a_key_is_of_one_share_of_the_budget() -> None:
    with open_trips() as session:
        quote = session.measure_sum("visit", "region", share="0.02", request_id="k")
        spent = session.state.ledger.spent
        for other in ("0.01", "0.03", None):
            with pytest.raises(QueryError, match="'k' was used for"):
                session.measure_sum("visit", "region", request_id="k", share=other)
        for same in ("0.02", 0.02, "1/50"):
            assert session.measure_sum("visit", "region", share=same, request_id="k") == quote
        assert session.state.ledger.spent == spent


# --- one charge --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_same_key_gets_the_same_quote_and_is_charged_once(kind: str, trips: Path) -> None:
    one, same, *_ = REQUESTS[kind]
    with pmw.resume_session(trips) as session:
        before = charges(session)
        priced = one(session, dry_run=True, request_id="k")
        quote = one(session, request_id="k")
        assert quote == priced
        assert charges(session) == before + 1
        one(session)  # without a key it is measured again
        one(session, request_id="other")
        spent = session.state.ledger.spent
        for again in (one, same):
            assert again(session, request_id="k") == quote
        if kind == "counts":  # together with what is known now, more would have a narrower bar
            assert one(session, dry_run=True, request_id="k") != quote
        assert session.state.ledger.spent == spent
        assert charges(session) == before + 3
        assert session.verify().holds
    with pmw.resume_session(trips) as session:
        assert one(session, request_id="k") == quote
        assert charges(session) == before + 3
        session.finalize()
        assert one(session, request_id="k") == quote  # a lost response, found again
        with pytest.raises(pmw.SessionError, match="closed"):
            one(session, request_id="new")
        assert session.verify().holds
    backup_session(trips, trips.with_name("copy.pmw"))
    assert failed(trips.with_name("copy.pmw")) == {}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_key_that_was_used_is_refused_for_anything_else(kind: str) -> None:
    one, *_ = REQUESTS[kind]
    others = [
        other for name, (first, _, *rest) in REQUESTS.items() for other in (rest if name == kind else [first])
    ]
    with open_trips() as session:
        one(session, request_id="k")
        spent = session.state.ledger.spent
        for other in others:
            with pytest.raises(QueryError, match="request_id 'k' was used for another measurement"):
                other(session, request_id="k")
        for ask in (
            lambda: session.ask("kind = 'a'", request_id="k"),
            lambda: session.tabulate(GROUPS, request_id="k"),
        ):
            with pytest.raises(QueryError, match="request_id 'k' was used for a measurement") as refused:
                ask()
            assert refused.value.position == "request_id"
        session.ask("kind = 'a'", request_id="q")
        session.tabulate(GROUPS, request_id="s")
        for key in "qs":
            with pytest.raises(QueryError, match=f"request_id '{key}' was used for a question"):
                one(session, request_id=key)
        assert session.state.ledger.spent == spent
        assert session.verify().holds


def test_keys_of_analysts_are_their_own_and_threads_with_one_key_are_charged_once() -> None:
    with open_trips() as session:
        before = charges(session)
        whose: list[Dialogue] = [session.analyst("ann"), session.analyst("bea"), session]
        for _ in range(2):
            for dialogue, request in zip(whose, REQUESTS.values(), strict=True):
                request[0](dialogue, request_id="k")
            assert charges(session) == before + 3
        dialogues = [session.analyst("ann") for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            quotes = list(pool.map(lambda one: COUNTS(one, request_id="threads"), dialogues))
        assert charges(session) == before + 4
        assert quotes[1:] == quotes[:-1]
        assert session.verify().holds


# --- bars ------------------------------------------------------------------------------------------------

AVERAGE = "SELECT region, AVG(visit) AS mean FROM trips GROUP BY region"
SOME = "SELECT kind, AVG(visit) AS mean FROM trips WHERE region IN ('n', 's') OR kind = 'a' GROUP BY kind"
PAIR = "region = 'n' AND kind = 'a'"
BARS: dict[str, list[Callable[..., Any]]] = {
    "counts": [
        lambda session, **given: session.ask_within(PAIR, 40, **given),
        lambda session, **given: session.ask_within("kind = 'a' AND region = 'n'", 40.0, **given),
        lambda session, **given: session.ask_within(PAIR, 41, **given),
        lambda session, **given: session.ask_within("region = 's' AND kind = 'a'", 40, **given),
        lambda session, **given: session.measure(["region", "kind"], **given),
    ],
    "sums": [
        lambda session, **given: session.sql_within(AVERAGE, 1, **given),
        lambda session, **given: session.sql_within(AVERAGE, "1.0", **given),
        lambda session, **given: session.sql_within(AVERAGE, 1.1, **given),
        lambda session, **given: session.sql_within(AVERAGE, "1%", **given),
        lambda session, **given: session.sql_within(f"{AVERAGE} LIMIT 2", 1, **given),
        lambda session, **given: session.measure_sum("visit", "region", **given),
    ],
    "sums of questions": [
        lambda session, **given: session.sql_within(SOME, 3, **given),
        lambda session, **given: session.sql_within(SOME, "3.0", **given),
        lambda session, **given: session.sql_within(SOME, 3.5, **given),
        lambda session, **given: session.sql_within(AVERAGE, 3, **given),
    ],
}


def first_of(quoting: Callable[..., Quote]) -> Callable[..., Quote]:
    """Return what tells the first price again and again."""
    found = list[Quote]()

    def quoted(*asked: Any) -> Quote:
        if not found:
            found.append(quoting(*asked))
        return found[0]

    return quoted


@pytest.fixture
def never_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a bar that was paid for be too wide, as where noise was larger than was foreseen."""
    monkeypatch.setattr(row_quotes, "quote_within", first_of(row_quotes.quote_within))
    monkeypatch.setattr(mean_quotes, "quote_aggregate", first_of(mean_quotes.quote_aggregate))


@pytest.mark.usefixtures("never_narrow")
@pytest.mark.parametrize("kind", BARS)
def test_a_bar_is_paid_once_under_a_key(kind: str, trips: Path) -> None:
    one, same, *others = BARS[kind]
    with pmw.resume_session(trips) as session:
        ann = session.analyst("ann")
        first = one(ann, request_id="k")
        spent = session.state.ledger.spent
        again, told = same(ann, request_id="k").to_dict(), first.to_dict()
        assert again["spent"].pop("charged") <= told["spent"].pop("charged")  # its counts are stored by then
        assert again == told
        for other in others:
            with pytest.raises(QueryError, match="request_id 'k' was used for another measurement"):
                other(ann, request_id="k")
        with pytest.raises(QueryError, match="request_id 'k' was used for a measurement"):
            ann.ask(PAIR, request_id="k")
        ann.ask("kind = 'b'", request_id="q")
        with pytest.raises(QueryError, match="request_id 'q' was used for a question"):
            one(ann, request_id="q")
        assert session.state.ledger.spent == spent
        one(ann, request_id="l")
        twice = session.state.ledger.spent
        assert twice > spent
        one(session.analyst("bea"), request_id="k")
        one(ann)
        assert session.verify().holds
    with pmw.resume_session(trips) as session:
        spent = session.state.ledger.spent
        one(session.analyst("ann"), request_id="k")
        assert session.state.ledger.spent == spent > twice
        session.finalize()
        one(session.analyst("ann"), request_id="k")
        assert session.verify().holds


# --- faults ------------------------------------------------------------------------------------------------


def test_a_key_shows_nowhere_but_in_the_file_and_one_that_waits_and_was_used_is_damage(trips: Path) -> None:
    with pmw.resume_session(trips) as session:
        COUNTS(session, request_id="a-key-of-mine")
        assert session.ledger().lines[-1].label == "region, kind"
        assert "a-key-of-mine" not in str(session.ledger().to_dict()) + repr(session.state.measured)
        session.export(trips.with_name("trips.model"), format="model")
        with cut_off():
            COUNTS(session, request_id="k")
    assert b"a-key-of-mine" not in trips.with_name("trips.model").read_bytes()
    assert b"a-key-of-mine" in bytes_of(trips)
    tamper(trips, "INSERT INTO requests VALUES ('k', 1, x'00')")
    assert failed(trips) == {
        "the charge of a batch that waits is reserved": "the key of the batch that waits was used before"
    }


def test_an_outcome_that_cannot_be_written_is_finished_at_the_next_request(trips: Path) -> None:
    with pmw.resume_session(trips) as session:
        before = charges(session)
        for table in ("requests", "ties"):
            key = f"in {table}"
            with unwritable(trips, table), pytest.raises(pmw.StoreError):
                COUNTS(session, request_id=key)
            assert charges(session) == before  # nothing of the outcome is there without its key
            with closing(sqlite3.connect(trips)) as connection:
                asked = connection.execute("SELECT count(*) FROM requests WHERE request = ?", (key,))
                assert asked.fetchone() == (0,)
            COUNTS(session, request_id=key)
            before += 1
            assert charges(session) == before
        assert session.verify().holds


# --- damage ------------------------------------------------------------------------------------------------

GONE = "what a key was used for is gone"
NOT_THERE = "keys of its measurements are not there"
FORGED = {
    "DELETE FROM ties": GONE,
    "DELETE FROM requests WHERE answer < 0": NOT_THERE,
    "UPDATE requests SET request = 'l' WHERE answer < 0": NOT_THERE,
    "UPDATE requests SET answer = answer - 1 WHERE answer < 0": NOT_THERE,
    "UPDATE requests SET answer = -1 WHERE answer < 0; UPDATE ties SET intent = 1": (
        "the key of batch 1 names no measurement"
    ),
    "UPDATE ties SET tie = replace(tie, '[\\\"region', '[\\\"age')": "scope of the key",
    "UPDATE ties SET tie = replace(tie, 'ma\\\":\\\"', 'ma\\\":\\\"1')": "noise of the key",
    "UPDATE ties SET tie = replace(tie, '\"asked\"', '\"a\"')": "Tie lacks asked",
    "UPDATE requests SET request = 'bea' || char(31) || 'k' WHERE answer < 0;"
    "UPDATE ties SET tie = replace(tie, 'ann', 'bea')": "the key of batch 2 is not its payer's",
}


def test_a_tie_that_names_no_measurement_is_damage_and_no_key_is_charged_twice(trips: Path) -> None:
    with pmw.resume_session(trips) as session:
        COUNTS(session.analyst("ann"), request_id="k")
        spent = session.state.ledger.spent
    assert failed(trips) == {}
    whole = trips.read_bytes()
    for number, (forged, message) in enumerate(FORGED.items()):
        trips.write_bytes(whole)
        tamper(trips, forged)
        (told,) = failed(trips).values()
        assert message in told, forged
        if number > 3:
            continue

        def again() -> None:
            with pmw.resume_session(trips) as session:
                COUNTS(session.analyst("ann"), request_id="k")

        with pytest.raises(pmw.SessionCorruptError):
            again()
        assert pending_of(trips) is None
        assert read_ledger(trips).spent == spent


def test_a_tie_that_is_gone_with_its_key_is_missed(trips: Path) -> None:
    with pmw.resume_session(trips) as session:
        COUNTS(session, request_id="k")
    execute(trips, "DELETE FROM requests WHERE answer < 0; DELETE FROM ties")
    assert any("keys or answers were altered or are gone" in told for told in failed(trips).values())
    with pytest.raises(pmw.SessionCorruptError, match="keys or answers were altered or are gone"):
        pmw.resume_session(trips)
