"""Sessions that are kept as files of an earlier program wrote them: an open budget outlives an upgrade.

``format_19`` was made by the program whose format it is (``scripts/keep_sessions.py``). Together its sessions
hold whatever a session under way may hold. What is kept is never made again: it is what users have.
"""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.privacy.budget import NeighboringRelation
from pmw.session.maintenance import read_session
from pmw.session.store.rows import FORMAT_VERSION, TESTS
from pmw.session.store.store import SessionStore
from scripts.keep_sessions import CONDITIONS, answers_of, finished, held_in, keep
from tests.pmw.session.stored import pending_of, secrets_of

KEPT = sorted(Path(__file__).parent.glob("format_*"))
NAMES = ("people", "trips")


@pytest.fixture(scope="module")
def made_now(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the program as it is."""
    folder = tmp_path_factory.mktemp("formats") / f"format_{FORMAT_VERSION}"
    keep(folder)
    return folder


@pytest.fixture(params=[*(path.name for path in KEPT), pytest.param("made now", marks=pytest.mark.slow)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of files that an earlier program wrote, or this one."""
    name = str(request.param)
    source = request.getfixturevalue("made_now") if name == "made now" else Path(__file__).parent / name
    return Path(shutil.copytree(source, tmp_path / "kept"))


def expected(kept: Path, name: str, moment: str) -> Any:
    return json.loads((kept / "held.json").read_text())[name][moment]


def require_alike(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare what sessions hold: exactly, but for answers of a fit that another machine may round."""
    for part in ("cap", "charges", "measured", "waiting", "rounds"):
        assert found[part] == wanted[part], part
    assert len(found["answers"]) == len(wanted["answers"])
    for one, other in zip(found["answers"], wanted["answers"], strict=True):
        assert (one[0], one[3:]) == (other[0], other[3:])
        assert one[1] == pytest.approx(other[1], abs=1e-3)
        assert one[2] == pytest.approx(other[2], abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_its_charges_are_the_same_fractions_and_its_answers_the_same(kept: Path, name: str) -> None:
    wanted = expected(kept, name, "before")
    found = held_in(kept / f"{name}.pmw")
    require_alike(found, wanted)
    assert found["answers"] == wanted["answers"]  # nothing is computed again
    assert sum(Fraction(price) for _, _, price, _ in found["charges"]) <= Fraction(found["cap"])
    assert pmw.verify_session(kept / f"{name}.pmw").holds


@pytest.mark.parametrize("name", NAMES)
def test_its_batch_has_the_outcome_that_was_recorded_for_it(kept: Path, name: str) -> None:
    require_alike(finished(name, kept), expected(kept, name, "after"))
    path = kept / f"{name}.pmw"
    assert pending_of(path) is None
    assert pmw.verify_session(path).holds


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on_and_gives_stored_answers_again(kept: Path, name: str) -> None:
    finished(name, kept)
    path = kept / f"{name}.pmw"
    with closing(SessionStore.open(path)) as store:
        stored = {row.query: row for row in store.answers.each()}
    assert len(stored) > 4
    with pmw.resume_session(path) as session:  # the table is not looked at for them
        before = session.state.ledger.spent
        for text in CONDITIONS[name]:
            answer = session.ask(text)
            row = stored[session.reader.where(text).to_json()]
            assert (answer.count, answer.interval) == (row.count, row.interval)
        assert session.state.ledger.spent == before
        session.finalize()
        assert session.verify().holds


@pytest.mark.parametrize("name", NAMES)
def test_its_model_answers_as_it_did(kept: Path, name: str) -> None:
    def flat(found: Any) -> list[float | None]:
        return [number for one in found for number in flat(one)] if isinstance(found, list) else [found]

    found, wanted = flat(answers_of(kept / f"{name}.model", name)), flat(expected(kept, name, "model"))
    assert len(wanted) > 12
    assert found == pytest.approx(wanted, abs=1e-3)


def test_what_is_kept_holds_whatever_a_session_under_way_may_hold(kept: Path) -> None:
    assert sum(path.stat().st_size for path in kept.iterdir()) < 1_500_000
    people, trips = kept / "people.pmw", kept / "trips.pmw"
    assert people.with_name("people.pmw-wal").stat().st_size > 0  # before it is opened and taken in
    waiting = [pending_of(path) for path in (people, trips)]
    assert [None if one is None else one.kind for one in waiting] == [TESTS, "sums of values"]
    assert all(one is not None and len(one.seed) == 32 for one in waiting)
    for path in (people, trips):
        assert read_session(path)[0].round_open
        assert {"threshold 0", "fingerprint", "fingerprint_key"} <= set(secrets_of(path))
        with closing(SessionStore.open(path)) as store:
            assert store.ties()
    assert {row[4] for row in held_in(people)["answers"]} == {"ann", "bob", "rea"}
    charged = [
        {name for line in expected(kept, "people", moment)["charges"] for name, _ in line[3]}
        for moment in ("before", "after")
    ]
    assert charged == [{"", "bob"}, {"", "ann", "bob"}]
    state = read_session(trips)[0]
    options, person = state.contract.options, state.domain.person
    assert options.neighboring_relation is NeighboringRelation.REPLACE_ONE
    assert (options.records_per_person, options.person_column) == (2, "id")
    assert [charge.what for charge in options.drafts] == ["ends of spent"]
    assert person is not None
    assert person.clips == (("spent", 400.0),)
    assert state.persons
    assert any(one.summed.clipped for one in state.sums)


def test_the_present_format_is_kept() -> None:
    assert f"format_{FORMAT_VERSION}" in [path.name for path in KEPT]
