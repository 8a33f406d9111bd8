"""Models to hand out: nothing secret is in one, they answer as their session, and other files are refused."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.data import MemorySource
from pmw.loop.loop import draw_tests
from pmw.loop.secret import SecretState
from pmw.loop.tiers import BatchDraws
from pmw.loop.untested import OpeningDraws, draw_opening
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.random_bits import repeatable_seed
from pmw.session.model_file import read_model
from pmw.session.store.store import SessionStore
from pmw.sparse_vector import NoisyThreshold
from queries import QueryError, all_marginals
from queries.factors import UNITS
from tests.pmw.session.stored import secrets_of
from tests.worlds import PEOPLE, WHOLE_YEARS, YEARS

QUESTIONS = ("", "age >= 40", "age >= 40 AND sex = 'Male'", "region = 'north' AND member = TRUE")
TESTED = pmw.Options(opening=pmw.Opening.ONE_WAY)
KINDS = {
    "marginals": TESTED,
    "simultaneous": pmw.Options(simultaneous=True, model=pmw.ModelKind.GRAPHICAL),
    "questions": pmw.Options(test=pmw.TestKind.QUERY, threshold=20.0, update_limit=8),
    "textbook": pmw.Options.textbook(threshold=100.0, update_limit=8),
}


def written(form: dict[str, Any], version: int = 6) -> bytes:
    """Return a model file with a form of anybody's making, and the hash that it should have."""
    return sealed(json.dumps(form, separators=(",", ":")), version)


def sealed(model: str, version: int = 6) -> bytes:
    digest = hashlib.sha256(f"{model}}}\n".encode()).hexdigest()
    head = f'{{"content":"online-pmw model","format_version":{version},"sha256":"{digest}",\n"model":'
    return f"{head}{model}}}\n".encode()


@pytest.fixture(scope="module", params=KINDS)
def raw(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the model file of a session that has tested and measured."""
    target = tmp_path_factory.mktemp("models") / "study.model"
    options = replace(KINDS[str(request.param)], seed=5)
    with YEARS.opened(epsilon=4, options=options) as session:
        session.ask_all(QUESTIONS)
        session.ask_all(["age >= 40 AND NOT member = TRUE", "sex = 'Male' AND region = 'east'"])
        session.export(target)
    return target.read_bytes()


@pytest.fixture
def form(raw: bytes) -> dict[str, Any]:
    model: dict[str, Any] = json.loads(raw)["model"]
    return model


def refusal(raw: bytes, path: Path) -> str:
    """Return why a file is refused."""
    path.write_bytes(raw)
    with pytest.raises(pmw.ModelFileError) as caught:
        pmw.load_model(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


# --- what is in a file --------------------------------------------------------------------------------------


def test_the_form_of_a_file_is_a_function_of_what_it_says(
    raw: bytes, form: dict[str, Any], tmp_path: Path
) -> None:
    assert written(form) == raw
    (tmp_path / "a.model").write_bytes(raw)
    state, _ = read_model(tmp_path / "a.model")
    assert (state.asked, state.version) == (6, len(state.measured))


def test_no_secret_of_a_session_is_in_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[bytes] = []

    def note() -> bytes:
        seeds.append(repeatable_seed(0, len(seeds)))  # some noise would leave no threshold to hide
        return seeds[-1]

    monkeypatch.setattr("pmw.session.journal.fresh_seed", note)
    data, path, target = tmp_path / "hidden_place.csv", tmp_path / "study.pmw", tmp_path / "study.model"
    PEOPLE.frame.to_csv(data, index=False)
    with pmw.open_session(data, YEARS.domain, epsilon=4, delta=1e-9, path=path, options=TESTED) as session:
        for question in QUESTIONS:
            session.ask(question, request_id=f"key of {question}")
        state = session.state
        session.export(target)
    secrets = secrets_of(path)
    with closing(SessionStore.open(path)) as store:
        answers = [answer.query for answer in store.answers.each()]
    assert {"fingerprint", "fingerprint_key", "threshold 0"} <= set(secrets)
    text = target.read_bytes()
    arrays = b"".join(base64.b64decode(found) for found in _arrays(json.loads(text)))
    noises = [
        number for name in secrets if name.startswith("threshold") for number in json.loads(secrets[name])
    ]
    hidden = [*secrets.values(), *seeds]
    hidden += [number.to_bytes(8, "little", signed=True) for number in noises if number is not None]
    for secret in hidden:
        assert len(secret) >= 8
        for shown in (secret, secret.hex().encode(), base64.b64encode(secret).rstrip(b"=")[:-1]):
            assert shown not in text
            assert shown not in arrays
    assert not any(str(number).encode() in text for number in noises if number)
    assert b"hidden_place" not in text
    assert b"key of" not in text
    assert not any(json.dumps(answer).encode() in text for answer in answers)  # nor what was asked
    for one in state.measurements:  # no measured number is the true one
        if isinstance(one, MarginalMeasurement):
            counts = MemorySource.from_frame(YEARS.frame, YEARS.domain).counts(one.scope).counts
            if counts.shape == one.units.shape:
                assert not (one.units == counts * UNITS).any()


def test_the_seed_of_a_seeded_session_is_not_in_its_model_and_none_is_too_large_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "study.model"
    with YEARS.opened(epsilon=4, seed=987654321) as session:
        session.export(target)
        with monkeypatch.context() as patch:
            patch.setattr("pmw.session.model_file._MOST_TREE", 10)
            with pytest.raises(
                pmw.ReleaseError, match="one file: expected a distribution of at most 10 cells"
            ):
                session.export(tmp_path / "other.model")
    assert list(tmp_path.iterdir()) == [target]
    assert b"987654321" not in target.read_bytes()
    model = pmw.load_model(target)
    assert model.state.contract.seeded
    assert model.guarantee.startswith("none")


def test_neighbouring_tables_with_the_same_outcomes_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second session has the outcomes of the first, and other threshold noise and keys."""
    opened: list[OpeningDraws] = []
    tested: list[tuple[BatchDraws, SecretState]] = []
    again = False

    def opening(*given: Any) -> OpeningDraws:
        if not again:
            opened.append(draw_opening(*given))
        return opened[0]

    def tests(*given: Any) -> tuple[BatchDraws, SecretState]:
        if again:
            draws, secret = tested.pop(0)
            return draws, SecretState(tuple(map(_moved, secret.thresholds)))
        tested.append(draw_tests(*given))
        return tested[-1]

    monkeypatch.setattr("pmw.session.releases.draw_opening", opening)
    monkeypatch.setattr("pmw.session.engine.draw_tests", tests)
    files = []
    for number, table in enumerate((PEOPLE.frame, PEOPLE.frame.iloc[1:])):
        again = number == 1
        path, target = tmp_path / f"{number}.pmw", tmp_path / f"{number}.model"
        with pmw.open_session(
            table, YEARS.domain, epsilon=4, delta=1e-9, path=path, options=TESTED
        ) as session:
            session.ask_all(QUESTIONS)
            session.ask("age >= 40 AND NOT member = TRUE")
            session.export(target)
        files.append(target.read_bytes())
    assert not tested
    assert files[0] == files[1]


def _moved(noisy: NoisyThreshold | None) -> NoisyThreshold | None:
    return None if noisy is None else NoisyThreshold(noisy.upper + 98765)


def _arrays(form: Any) -> Iterator[str]:
    if isinstance(form, dict):
        if "base64" in form:
            yield form["base64"]
        for value in form.values():
            yield from _arrays(value)
    elif isinstance(form, list):
        for value in form:
            yield from _arrays(value)


# --- other files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["marginals"], indirect=True)
def test_what_is_no_model_is_refused_in_one_sentence(
    raw: bytes, form: dict[str, Any], study: Path, tmp_path: Path
) -> None:
    for content, words in (
        (b"", "no model"),
        (b"{}", "no model"),
        (b"PK\x03\x04 something else", "no model"),
        (b"\xef\xbb\xbf" + raw, "no model"),
        (study.read_bytes(), "this is a session"),
        (raw[:-1], "hash"),
        (raw + b"\n", "hash"),
        (written(form, version=5), "format 5"),
    ):
        assert words in refusal(content, tmp_path / "other.model")
    for name, words in (
        (tmp_path, "folder"),
        (tmp_path / "absent", "No such file"),
        (Path("a\0b"), "no file"),
    ):
        with pytest.raises(pmw.ModelFileError, match=words):
            pmw.load_model(name)


@pytest.mark.parametrize("raw", ["marginals"], indirect=True)
def test_a_model_is_no_session(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "study.model"
    path.write_bytes(raw)
    for use in (
        pmw.resume_session,
        pmw.verify_session,
        pmw.finalize_session,
        lambda one: pmw.backup_session(one, tmp_path / "b"),
        lambda one: pmw.move_session(one, tmp_path / "people.csv"),
    ):
        with pytest.raises(pmw.SessionError, match="expected a session file, found a model"):
            use(path)
    with pytest.raises(pmw.SessionExistsError, match="holds a model"):
        YEARS.opened(path, epsilon=1, delta=0)
    assert path.read_bytes() == raw


# --- forms of anybody's making ------------------------------------------------------------------------------


def _array(values: Sequence[float], dtype: str = "<f8") -> dict[str, Any]:
    raw = np.array(values, dtype=dtype).tobytes()
    return {"dtype": dtype, "shape": [len(values)], "base64": base64.b64encode(raw).decode()}


def _set(*place: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(form: dict[str, Any]) -> None:
        inner: Any = form
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = to

    return change


def _noise(scale: str) -> Callable[[dict[str, Any]], None]:
    return _set("opening_plan", "total_noise", to={"distribution": "discrete_laplace", "scale": scale})


def _schema(entry: str, attributes: int = 1) -> Callable[[dict[str, Any]], None]:
    lines = (f"[[attributes]]\nname = 'a{number}'\n{entry}\n" for number in range(attributes))
    return _set("contract", "domain", to="".join(lines))


# What the codec tells of a form, its own tests look at.
WRONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "a noise of negative width": _noise("-3"),
    "a noise without width": _noise("0"),
    "a share beyond the cap": _set("spent", to="10000"),
    "a confidence next to 1": _set("contract", "options", "confidence", to=1 - 2**-53),
    "a key that is not known": _set("code", to="import os"),
    "a file to read": _schema('values_file = "/etc/passwd"'),
    "no schema": _set("contract", "domain", to="[[["),
    "a schema with too many cells": _schema('kind = "integer"\nmin = 0\nmax = 999999', 40),
    "other dimensions": _set("distribution", "duals", "shape", to=[1, 1]),
    "a number out of range": _set("draws", "total_units", to=2**62),
    "a negative number of questions": _set("asked", to=-1),
    **{
        f"a distribution that is not of its measurements: {duals}": _set(
            "distribution", "duals", to=_array(duals)
        )
        for duals in ([np.nan, 0, 3], [np.inf, 0, 3], [1e300, 0, 3], [], [0], [0, 3], [0, 1, 3])
    },
    "a certificate of a version to come": _set("certificates", 0, "version", to=99),
    "a threshold below 0": _set("certificates", 0, "threshold", to=-1),
    "a certificate of nothing": _set("certificates", 0, "scope", to=[]),
    "a certificate of a scope twice": _set("certificates", 0, "scope", to=["age"] * 2),
}


@pytest.mark.parametrize("raw", ["marginals"], indirect=True)
def test_a_form_that_cannot_be_is_refused(raw: bytes, tmp_path: Path) -> None:
    for name, change in WRONG.items():
        form = json.loads(raw)["model"]
        change(form)
        assert "damaged" in refusal(written(form), tmp_path / "a.model"), name
    form = json.loads(raw)["model"]
    form["distribution"] = None
    assert "version" in refusal(written(form), tmp_path / "a.model")


_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 3, 10**6, 2**62, 10**30, 0.5, 1e300, "", "x", "1/3", "0", "age", [], {}, ["age"],
    [["age"]], "query", "marginal", "measured", "total", "questions", "marginals",
)  # fmt: skip


def _inner(form: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a form: what holds it, and its key."""
    pairs = form.items() if isinstance(form, dict) else enumerate(form) if isinstance(form, list) else ()
    for key, value in pairs:
        yield form, key
        yield from _inner(value)


def _change(form: dict[str, Any], chance: random.Random) -> None:
    """Change, leave out or double one value of a form, or change a number of an array."""
    inner, key = chance.choice(list(_inner(form)))
    value, choice = inner[key], chance.randrange(4)
    if key == "base64" and choice:
        numbers = bytearray(base64.b64decode(value))[8 * (choice == 1) :]
        if choice > 1 and numbers:
            numbers[chance.randrange(len(numbers))] = chance.randrange(256)
        inner["base64"], inner["shape"] = base64.b64encode(bytes(numbers)).decode(), [len(numbers) // 8]
    elif choice == 0:
        del inner[key]
    elif type(value) is int and choice < 3:
        inner[key] = value + chance.choice((-1, 1, 10**9, -value))
    elif isinstance(inner, list) and choice == 1:
        inner.insert(key, copy.deepcopy(value))
    else:
        inner[key] = chance.choice(_VALUES)


@pytest.mark.parametrize("raw", ["marginals", "questions"], indirect=True)
def test_whatever_a_file_says_it_is_refused_or_answers(form: dict[str, Any], tmp_path: Path) -> None:
    chance, path, refused = random.Random(11), tmp_path / "a.model", 0
    for _ in range(100):
        forged = copy.deepcopy(form)
        _change(forged, chance)
        path.write_bytes(written(forged))
        try:
            model = pmw.load_model(path)
        except pmw.ModelFileError:
            refused += 1
            continue
        for question in QUESTIONS:
            with suppress(QueryError):  # of another schema
                answer = model.ask(question)
                assert np.isfinite([answer.count, *(answer.interval or ())]).all()
        model.synthetic_records(5)
    assert 50 <= refused < 100


# --- damage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["marginals"], indirect=True)
@given(st.data())
def test_a_damaged_file_is_refused_or_is_the_same(raw: bytes, tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw) - 1))
        damaged[place] ^= data.draw(st.integers(1, 255))
    damaged = damaged[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))]
    if bytes(damaged) != raw:
        refusal(bytes(damaged), tmp_path / "a.model")


# --- memory -------------------------------------------------------------------------------------------------

_BOUNDED = """
import resource, sys
from pathlib import Path
import pmw
from pmw.session.public_model import load_model
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 700 * 2**20,) * 2)
for name in sys.argv[1:]:
    try:
        load_model(name)
    except pmw.ModelFileError as error:
        print("refused", error)
"""


_GAUSSIAN = {"distribution": "discrete_gaussian", "sigma": "1000"}


def _hostile(form: dict[str, Any]) -> Iterator[bytes]:
    tall = {"cells": 9, "special": 0, "branching": 2, "height": 10**9}
    yield sealed("[" * 2_000_000 + "]" * 2_000_000)
    yield sealed("[" * 100_000 + "]" * 100_000)
    yield sealed("[" + "[]," * 5_000_000 + "[]]")
    yield sealed("9" * 5_000_000)
    yield sealed('"' + "\\ud83d\\ude00" * 1_000_000 + '"')
    for change in (
        _set("contract", "budget", "epsilon", to="1e999999999"),
        _set("opening_plan", "trees", to={"age": tall}),
        _set("draws", "marginals", to=[_wide_marginal()]),
        _set("contract", "options", "update_limit", to=10**4000),
        _schema("", 5_000),
        _schema('kind = "integer"\nmin = 0\nmax = 999999', 5_000),
        _set("contract", "domain", to="a." * 30_000 + "b = 1"),
        _set("contract", "domain", to="".join(f"[a{number}.b.b.b.b]\n" for number in range(10**5))),
        _set("measured", to=[_wide_question(1)]),
        _set("measured", to=[_wide_question(900) for _ in range(1000)]),
    ):
        changed = copy.deepcopy(form)
        change(changed)
        yield written(changed)
    dense = copy.deepcopy(form)
    _schema('kind = "integer"\nmin = 0\nmax = 999', 8)(dense)
    dense["contract"]["options"].update(test="query", model="dense")
    yield written(dense)


def _wide_question(stop: int) -> dict[str, Any]:
    """Return the measurement of a question over a large scope, in a few bytes."""
    query = json.dumps({"factors": [[["age", "sex", "region", "member"] * 3, [[0, stop, 7]]]]})
    return {"kind": "query", "query": query, "units": 0, "noise": _GAUSSIAN, "model_units": 0}


def _wide_marginal() -> dict[str, Any]:
    """Return the measurement of a marginal that says to be large, in a few bytes."""
    units = {**_array([0], "<i8"), "shape": [2**50]}
    return {"kind": "marginal", "scope": ["age"], "units": units, "noise": _GAUSSIAN, "requested": False}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("raw", ["marginals"], indirect=True)
def test_what_is_made_of_a_file_is_bounded(raw: bytes, form: dict[str, Any], tmp_path: Path) -> None:
    names = []
    for number, hostile in enumerate(_hostile(form)):
        path = tmp_path / f"{number}.model"
        path.write_bytes(hostile)
        names.append(str(path))
    huge = tmp_path / "huge.model"
    with huge.open("wb") as stream:
        stream.write(raw)
        stream.truncate(2**36)  # 64 GB of zeros, none of which takes room on the disk
    names.append(str(huge))
    found = subprocess.run(
        [sys.executable, "-c", _BOUNDED, *names], capture_output=True, text=True, timeout=300, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]
    lines = found.stdout.splitlines()
    assert len(lines) == len(names), found.stdout
    assert all(line.startswith("refused ") for line in lines)
    assert "64 MB" in lines[-1]


ASKED = (
    "",
    "age >= 40",
    "age >= 41",  # cuts a cell
    "sex = 'Male' AND region = 'north'",
    "age >= 40 AND NOT member = TRUE",
    "region IS NULL OR age < 28",
    "age < 30 AND sex = 'Female' AND region = 'east' AND member = TRUE",
)
STATEMENT = "SELECT sex, AVG(age), COUNT(*) FROM people WHERE member = TRUE GROUP BY sex"
SESSIONS = {
    "graphical": pmw.Options(model=pmw.ModelKind.GRAPHICAL, simultaneous=True),
    "replace-one": pmw.Options(
        opening=pmw.Opening.ONE_WAY, neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE
    ),
    "questions": KINDS["questions"],
    "textbook": KINDS["textbook"],
    "beside": replace(TESTED, model=pmw.ModelKind.GRAPHICAL, max_cells=50),
    "triples beside": pmw.Options(opening=pmw.Opening.TRIPLES, model=pmw.ModelKind.GRAPHICAL, max_cells=200),
}

# Asks a model counts, means, a quantile and groups, and tells what was loaded for it.
OFFLINE = """
import sys
import pmw

model = pmw.load_model(sys.argv[1])
assert model.ask("age >= 40").interval is not None
assert len(model.ask_all(["sex = 'Male'", {"region": {"in": ["north", "south"]}}])) == 2
assert len(model.answer_arrays("age", [0, 1], [3, 3]).interval) == 2
assert len(model.group_by(["sex", "region"], where="age < 48")) > 4
statement = "SELECT sex, COUNT(*) AS n, AVG(age), MEDIAN(age) FROM people GROUP BY sex ORDER BY n"
assert all(one.interval for one in model.sql(statement).estimates())
for table in (model.mean("age", by="sex"), model.sum("age"), model.quantile("age", 0.9)):
    assert all(one.interval for one in table.estimates())
    table.to_text(), table.to_dict(), table._repr_html_()
model.status()._repr_html_()
print(sorted({"duckdb", "matplotlib", "pandas", "polars", "pyarrow", "scipy"} & set(sys.modules)))
"""


@pytest.mark.parametrize("options", SESSIONS.values(), ids=SESSIONS)
def test_a_model_answers_as_its_session_does_without_a_test(
    options: pmw.Options, tmp_path: Path, repeatable: None
) -> None:
    domain = WHOLE_YEARS.domain if options.public_count else YEARS.domain
    target = tmp_path / "study.model"
    with pmw.open_session(
        PEOPLE.frame, domain, epsilon=4, delta=1e-9, path=tmp_path / "study.pmw", options=options
    ) as session:
        for asked in ASKED[3:]:
            session.ask(asked)
        about = session.export(target)
        model = pmw.load_model(target)
        state = session.state  # what it answers where it may not test
        expected = [session._engine.answer_untested(session._request(one, fresh=True)) for one in ASKED]
    if not options.tests_marginals and state.positives_used < state.positives_limit:
        expected = [  # the session was not asked to test them
            replace(answer, source=pmw.Source.UNVERIFIED) if answer.source is pmw.Source.EXHAUSTED else answer
            for answer in expected
        ]
    assert list(model.ask_all(ASKED)) == expected
    assert [model.ask(question, fresh=True, request_id="a") for question in ASKED] == expected
    workload = all_marginals(domain, 1)
    assert list(model.ask_all(workload)) == [model.ask(query) for query in workload]
    assert sum(answer.interval is not None for answer in expected) >= (
        1 if options.opening is pmw.Opening.NONE else 3
    )
    assert about["guarantee"] == model.guarantee
    assert model.status().budget_share == state.ledger.share
    assert model.status().version == state.version
    assert (options.max_cells is not None) == bool(state.beside)  # kept beside a model that cannot hold it
    live = pmw.PublicModel(state)
    assert model.sql(STATEMENT).to_dict() == live.sql(STATEMENT).to_dict()
    assert model.quantile("age", by="member").rows == live.quantile("age", by="member").rows
    assert model.group_by(["sex", "member"]).rows == live.group_by(["sex", "member"]).rows


def test_a_model_answers_without_the_libraries_of_tables_and_plans(tmp_path: Path) -> None:
    """A browser, and whoever has the file alone, needs numpy, sqlglot and what draws a page."""
    target = tmp_path / "study.model"
    with pmw.open_session(PEOPLE.frame, PEOPLE.domain, epsilon=4, delta=1e-9) as session:
        session.export(target)
    command = [sys.executable, "-c", OFFLINE, str(target)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert told.stdout == "[]\n"
