"""Commands as tests run them: in the working folder, and with what they are to end with."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from pmw.cli import main

TABLE = ("--data", "people.csv", "--schema", "people.toml")
OPEN = ("open", "study.pmw", *TABLE, "--epsilon", "1")


class Run:
    """Runs commands."""

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """Run a command, however it ends."""
        return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="pmw")

    def told(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """Return what a command prints that does what it is told."""
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def form(self, *arguments: str) -> Any:
        """Return the object that a command prints where JSON is asked for."""
        return json.loads(self.told(*arguments, "--json"))

    def forms(self, *arguments: str, stdin: str | bytes | None = None) -> list[Any]:
        """Return the objects that a command prints, one to a line."""
        return [json.loads(line) for line in self.told(*arguments, stdin=stdin).splitlines()]

    def refused(self, *arguments: str, code: int = 1, stdin: str | bytes | None = None) -> str:
        """Return the error of a command that prints nothing else, and ends with a code."""
        result = self(*arguments, stdin=stdin)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        assert "Error: " in result.stderr
        return result.stderr
