"""``pmw draft``: a schema on standard output, and nothing else anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]


def test_a_draft_is_printed_whole(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age;work\n30;mine\n")
    result = run("draft", "--data", "t.csv", "--delimiter", ";")
    assert (result.exit_code, result.stderr) == (0, "")
    todo = 'kind = "TODO"    # such as: kind = "integer", then min = 0 and max = 99\n'
    attributes = [f'\n[[attributes]]\nname = "{name}"\n{todo}' for name in ("age", "work")]
    assert result.stdout.endswith("".join(['name = "records"\n', *attributes]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def write_tables(folder: Path) -> None:
    """Write a private table, a public one of the same columns, and a copy of the private one."""
    (folder / "people.csv").write_text("age,work\n31,mine\n40,farm\n")
    (folder / "census.csv").write_text("age,work\n17,farm\n90,mine\n")
    (folder / "copy.csv").write_bytes((folder / "people.csv").read_bytes())


def draft(run: Run, data: str, public: str, *more: str) -> Result:
    result = run("draft", "--data", data, "--from-public", public, *more)
    Path("drafted.toml").write_text(result.stdout)
    return result


def opened(run: Run, data: str, *more: str) -> Result:
    given = ("--data", data, "--schema", "drafted.toml", "--epsilon", "1")
    return run("open", "s.pmw", *given, "--test", "query", *more)


def test_a_draft_from_another_public_table_opens_a_session(run: Run, tmp_path: Path) -> None:
    write_tables(tmp_path)
    text = draft(run, "people.csv", "census.csv").stdout
    assert "no value of it stands here" in text
    assert 'Its bytes were compared with those of "census.csv", and differ.' in text
    assert 'read off "census.csv", which the custodian declares public' in text
    assert not any(value in text[text.index("[[attributes]]") :] for value in ("31", "40"))
    assert opened(run, "people.csv").exit_code == 0


@pytest.mark.parametrize("public", ["people.csv", "./people.csv", "link.csv", "copy.csv"])
def test_values_of_the_table_itself_are_not_drafted_unless_it_is_declared_public(
    run: Run, tmp_path: Path, public: str
) -> None:
    write_tables(tmp_path)
    (tmp_path / "link.csv").symlink_to("people.csv")
    refused = draft(run, "people.csv", public)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "is the table in --data, or has the same bytes" in refused.stderr
    assert "31" not in refused.stderr
    told = draft(run, "people.csv", public, "--data-is-public")
    assert told.exit_code == 0
    assert "# The custodian declares that table public." in told.stdout
    assert "no value of it" not in told.stdout
    assert "min = 31" in told.stdout


@pytest.mark.parametrize("data", ["census.csv", "moved.csv"])
def test_a_session_over_the_table_that_domains_were_read_off_is_refused(
    run: Run, tmp_path: Path, data: str
) -> None:
    write_tables(tmp_path)
    draft(run, "people.csv", "census.csv")
    (tmp_path / "moved.csv").write_bytes((tmp_path / "census.csv").read_bytes())
    refused = opened(run, data)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: the domains of drafted.toml were read off the table in --data")
    assert "say so with --data-is-public" in refused.stderr
    assert not (tmp_path / "s.pmw").exists()
    assert opened(run, data, "--data-is-public").exit_code == 0


def test_a_table_that_grew_since_its_domains_were_read_off_it_is_refused(run: Run, tmp_path: Path) -> None:
    write_tables(tmp_path)
    draft(run, "people.csv", "census.csv")
    with (tmp_path / "census.csv").open("a") as stream:
        stream.write("50,farm\n")
    assert opened(run, "census.csv").exit_code == 1


@pytest.mark.parametrize(
    "command", [("offline", "--workload", "marginals:1", "--output", "made.csv"), ("demo",)]
)
def test_whatever_else_releases_over_that_table_is_refused_too(
    run: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    write_tables(tmp_path)
    draft(run, "people.csv", "census.csv")
    before = sorted(tmp_path.iterdir())
    refused = run(*command, "--data", "census.csv", "--schema", "drafted.toml", "--epsilon", "1")
    assert refused.exit_code == 1
    assert "say so with --data-is-public" in refused.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1)])
def test_on_a_terminal_it_is_asked(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    write_tables(tmp_path)
    draft(run, "people.csv", "census.csv")
    given = ("--data", "census.csv", "--schema", "drafted.toml", "--epsilon", "1", "--test", "query")
    result = run("open", "s.pmw", *given, stdin=typed)
    assert result.exit_code == code
    assert "Is the table in --data public, so that nobody in it needs protection [y/N]:" in result.stderr
    assert (tmp_path / "s.pmw").exists() == (code == 0)
    drafted = run("draft", "--data", "copy.csv", "--from-public", "people.csv", stdin=typed)
    assert drafted.exit_code == code
    assert ("min = 31" in drafted.stdout) == (code == 0)


def test_nothing_that_a_session_publishes_tells_the_public_table_again(run: Run, tmp_path: Path) -> None:
    write_tables(tmp_path)
    text = draft(run, "people.csv", "census.csv").stdout
    marks = re.findall("[0-9a-f]{64}", text)
    assert len(marks) == 2
    assert opened(run, "people.csv").exit_code == 0
    run("export", "s.pmw", "--output", "made.csv")
    run("export", "s.pmw", "--output", "m.json", "--format", "measurements")
    for name in ("s.pmw", "made.csv", "made.csv.manifest.json", "m.json"):
        content = (tmp_path / name).read_bytes()
        assert not any(mark.encode() in content for mark in marks), name


@pytest.mark.parametrize("given", ['"sha256:00"', '["sha256:00"]', "[3]", "true", "{ a = 1 }"])
def test_what_is_no_list_of_digests_is_one_error(run: Run, tmp_path: Path, given: str) -> None:
    write_tables(tmp_path)
    attribute = '[[attributes]]\nname = "age"\nkind = "integer"\nmin = 0\nmax = 99\n'
    (tmp_path / "drafted.toml").write_text(f"drafted_from = {given}\n{attribute}")
    refused = opened(run, "people.csv")
    assert refused.exit_code == 1
    expected = "drafted_from must be the list of digests that a draft wrote; copy it whole, or leave it out"
    assert refused.stderr == f"Error: drafted.toml: {expected}\n"


def test_a_draft_of_a_database_says_that_no_value_was_read(run: Run, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    write_tables(tmp_path)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people (age INTEGER, work VARCHAR)")
    table = ("--data", "duckdb:people.duckdb", "--table", "people")
    text = run("draft", *table, "--from-public", "census.csv").stdout
    assert "no value of it was read" in text
    assert "compared" not in text
    (tmp_path / "drafted.toml").write_text(text)
    given = ("--schema", "drafted.toml", "--epsilon", "1", "--test", "query")
    assert run("open", "s.pmw", *table, *given).exit_code == 0
