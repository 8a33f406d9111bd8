"""``pmw draft``: a schema on standard output, and nothing else anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


def test_a_filled_draft_opens_a_session(run: Run, people: Path) -> None:
    draft = run("draft", "--data", "people.csv", "--from-public", "people.csv")
    (people / "drafted.toml").write_text(draft.stdout)
    opened = run("open", "s.pmw", "--data", "people.csv", "--schema", "drafted.toml", "--epsilon", "1")
    assert opened.exit_code == 0, opened.output


def test_an_absent_file_is_one_error(run: Run) -> None:
    result = run("draft", "--data", "no.csv")
    assert result.exit_code == 1
    assert result.stderr == "Error: expected a readable file, got no.csv: no such file\n"


def test_a_dialect_of_no_csv_file_is_refused(run: Run) -> None:
    result = run("draft", "--data", "t.parquet", "--trim")
    assert result.exit_code == 2
    assert "t.parquet is Parquet; leave it out" in result.stderr
