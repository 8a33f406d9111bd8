"""The Containerfile: who the service runs as, what it starts, and what goes into the image."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from pathlib import Path

import click

from pmw.cli import main

ROOT = Path(__file__).parent.parent
KNOWN = {
    "FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
    "ENTRYPOINT", "CMD",
}  # fmt: skip


def instructions() -> list[tuple[str, str]]:
    """Return the instructions, each with its arguments in one line."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def last(word: str) -> str:
    return [rest for one, rest in instructions() if one == word][-1]


def test_every_line_is_an_instruction_and_every_image_is_slim_and_has_a_version() -> None:
    assert {word for word, _ in instructions()} <= KNOWN
    images = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert images
    assert all(re.fullmatch(r"docker\.io/library/python:3\.\d+-slim", image) for image in images)


def test_commands_are_shell_that_can_be_read_and_end_at_the_first_error() -> None:
    commands = [rest for word, rest in instructions() if word == "RUN"]
    assert commands
    for rest in commands:
        assert set(shlex.split(rest)) & {"&&"}
        assert not set(shlex.split(rest)) & {";", "|", "||", "sudo"}


def test_the_service_runs_as_nobody_special_with_compiled_code() -> None:
    order = [word for word, _ in instructions()]
    assert int(last("USER")) >= 1000
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert order[order.index("USER") :].count("RUN") == 0  # nothing is made as that user
    assert any("compileall" in rest for word, rest in instructions() if word == "RUN")
    assert "PYTHONDONTWRITEBYTECODE=1" in last("ENV")


def test_what_it_starts_is_a_command_of_ours_with_options_that_there_are() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["pmw"]
    name, *arguments = json.loads(last("CMD"))
    context = click.Context(main, **main.context_settings)
    command = main.get_command(context, name)
    assert command is not None
    parsed = command.make_context(name, arguments, parent=context).params
    assert (str(parsed["sessions"][0]), parsed["port"]) == (last("WORKDIR"), int(last("EXPOSE")))
    assert parsed["users"].parent == parsed["audit"].parent == Path(last("VOLUME"))
    assert f"127.0.0.1:{parsed['port']}/ready" in last("HEALTHCHECK")


def test_no_table_session_or_token_of_a_checkout_goes_into_the_image() -> None:
    first, *kept = (ROOT / ".containerignore").read_text().split()
    assert first == "*"
    allowed = [one.removeprefix("!") for one in kept if one.startswith("!")]
    assert all((ROOT / one).exists() for one in allowed)
    for name in ("study.pmw", "users.json", "people.csv", ".git", "audit.jsonl"):
        assert not any(fnmatch.fnmatch(name, one) for one in allowed)
