"""The command group: lists commands without loading them."""

from __future__ import annotations

import gc
import importlib
from typing import Any

import click

from pmw.cli.usage import Suggesting, echo, refusal

_COMMANDS = {  # each by its module and its name there
    "ask": "ask_commands:ask",
    "audit": "audit_command:command",
    "backup": "upkeep_commands:backup",
    "check": "check_command:command",
    "close": "upkeep_commands:close",
    "completion": "help_commands:completion",
    "demo": "demo_command:command",
    "draft": "draft_command:command",
    "export": "export_command:command",
    "finish": "upkeep_commands:finish",
    "help": "help_commands:help_",
    "ledger": "status_commands:ledger",
    "mcp": "serve_commands:mcp",
    "measure": "ask_commands:measure",
    "move": "upkeep_commands:move",
    "offline": "synthesize_commands:offline",
    "open": "open_commands:open_",
    "plan": "open_commands:plan",
    "report": "status_commands:report",
    "serve": "serve_commands:serve",
    "shell": "shell:command",
    "status": "status_commands:status",
    "synthesize": "synthesize_commands:synthesize",
    "user": "serve_commands:user",
    "verify": "status_commands:verify",
}

_GARBAGE = 100_000  # new objects after which cycles are looked for; loading a command makes half as many


class _Commands(Suggesting):
    def main(self, *args: Any, **kwargs: Any) -> Any:
        gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
        return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(f"pmw.cli.{module}"), name)
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt:  # click would say "Aborted!", with the exit code of an error
            echo("interrupted; everything printed so far is durable", err=True)
            raise click.exceptions.Exit(130) from None
        except Exception as error:
            refused = refusal(error)
            if refused is None:
                raise
            raise refused from None


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 error, 2 usage, 3 exhausted (--strict), 4 question refused, "
    "5 session locked, or it or a model damaged, 130 interrupted.",
)
@click.version_option(package_name="online-pmw", prog_name="pmw")
def main() -> None:
    """Private answers over a sensitive table.

    A custodian opens a session over a table with a fixed privacy budget. Analysts ask counting questions
    without end; each gets an answer with an error bar. A synthetic table can be exported at any time.

    \b
    Try it on real data:
      pmw demo
    Or on your own:
      pmw open study.pmw --data people.csv --schema people.toml --epsilon 1 --delta 1e-9
      pmw ask study.pmw "age BETWEEN 30 AND 39 AND sex = 'Female'"
      pmw export study.pmw --output synthetic.csv
    """
