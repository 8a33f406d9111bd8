"""``pmw audit``: what the privacy of every mechanism really is, beside what is claimed for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.usage import PATH, echo, flag, json_line, json_option, option, typed, wrong_values

if TYPE_CHECKING:
    from pmw.research.audit.report import AuditOptions, Finding

_SHORT, _LONG = 20_000, 1_000_000  # counted runs per table


@click.command(
    "audit",
    short_help="Check every sparse vector mechanism against its claim.",
    epilog="""\b
Examples:
  pmw audit
  pmw audit sparse algorithm-4 --exact
  pmw audit algorithm-3 algorithm-6 --exact --show
  pmw audit --statistical --runs 100000 --plot audit.png
  pmw audit --long --json > audit.jsonl
\b
Verdicts:
  sound      nothing was found beyond the claim: enumeration covers the instances searched, and runs give
             a lower bound, so neither is a proof
  violates   a pair of neighbouring tables shows that the claim is false; of the flawed mechanisms, kept
             for audits alone, this is expected, and the exit code is 0
""",
)
@click.argument("mechanisms", nargs=-1, metavar="[MECHANISM]...")
@flag("--exact", "Enumerate outputs only.")
@flag("--statistical", "Count runs of the implementation only.")
@flag("--show", "Show the output that convicts each flawed mechanism; --json always does.")
@option(
    "--runs N",
    "Counted runs on each table.  [default: 20000; 1000000 with --long]",
    click.IntRange(100, 10**8),
)
@option(
    "--false-alarm RATE",
    "Probability that the runs wrongly accuse a sound mechanism.",
    click.FloatRange(0, 1, min_open=True, max_open=True),
    default=1e-6,
)
@flag("--long", "Search more neighbours and streams, make more runs.", to="is_long")
@option("--seed S", "Repeat the runs of an audit; by default they are fresh.", int)
@option("--plot FILE", "Draw found against claimed: a PNG, PDF or SVG file. Needs the extra 'plots'.", PATH)
@flag("--force", "Overwrite an existing picture.")
@json_option("Print one line of JSON per mechanism.")
def command(
    mechanisms: tuple[str, ...], plot: Path | None, force: bool, show: bool, as_json: bool, **given: Any
) -> None:
    """Hold each MECHANISM against its claim, all of them by default; no table is read, nothing is spent.

    The exact audit enumerates the outputs of small streams on neighbouring tables, from the mechanism's own
    tables, and finds the largest log-ratio of their probabilities. The statistical one runs the
    implemented comparison many times on a stated pair of tables and certifies a lower bound on epsilon; the
    event it counts is chosen on separate runs. Mechanisms that do more than compare are enumerated only. By
    default both audits are made, with few runs.
    """
    _refuse_idle_options(show, given)
    from pmw.cli.session_files import check_picture
    from pmw.display.progress import Progress
    from pmw.research.audit.catalogue import chosen
    from pmw.research.audit.report import audit

    check_picture(plot, force=force)
    options = _options(given)
    with wrong_values():
        entries = chosen(mechanisms, runs_only=not options.exact)
    with Progress("mechanisms audited") as progress:

        def tell(finding: Finding) -> None:
            progress.add(1)
            if as_json:
                echo(json_line(finding.to_dict()))

        findings = audit(entries, options, tell)
    if not as_json:
        echo(audit_text(findings, options, show=show))
    if plot is not None:
        from pmw.display.figures import write_figure
        from pmw.research.audit.report import audit_figure

        write_figure(audit_figure(findings), plot, force=force)
        if not as_json:
            echo(f"Wrote {plot}.")


def _refuse_idle_options(show: bool, given: dict[str, Any]) -> None:
    if show and given["statistical"] and not given["exact"]:
        raise click.UsageError("--show belongs to the exact audit; leave out --statistical, or add --exact")
    counting = typed("runs", "false_alarm", "seed")
    if counting and given["exact"] and not given["statistical"]:
        verb = "belongs" if len(counting) == 1 else "belong"
        raise click.UsageError(
            f"{' and '.join(counting)} {verb} to the statistical audit; "
            "leave out --exact, or add --statistical"
        )


def _options(given: dict[str, Any]) -> AuditOptions:
    from pmw.research.audit.entries import Depth
    from pmw.research.audit.report import AuditOptions

    exact, statistical, is_long = given["exact"], given["statistical"], given["is_long"]
    runs = (_LONG if is_long else _SHORT) if given["runs"] is None else given["runs"]
    return AuditOptions(
        exact=exact or not statistical,
        runs=runs if statistical or not exact else None,
        false_alarm=given["false_alarm"],
        depth=Depth.LONG if is_long else Depth.SHORT,
        seed=given["seed"],
    )


def audit_text(findings: Sequence[Finding], options: AuditOptions, *, show: bool = False) -> str:
    """Return the table of an audit, with ``show`` also the witnesses, and what it amounts to."""
    from pmw.research.audit.report import audit_table, witness_text

    lines = [audit_table(findings), ""]
    for finding in findings:
        entry = finding.entry
        if show and finding.witness is not None:
            lines += [witness_text(entry.name, entry.flaw, entry.claim, finding.witness), ""]
    lines.append(_summary(findings))
    if options.exact:
        lines.append(
            "found: the largest log-ratio over the streams searched, or the largest D_alpha/alpha (rho)."
        )
    if options.runs is not None:
        lines.append(
            f"by runs: epsilon certified by {options.runs:,} runs on each of two tables, at delta = 0 or, "
            f"for rho, 0.001;\n  any false accusation at all has probability at most {options.false_alarm:g}."
        )
    seconds = sum(finding.seconds for finding in findings)
    return "\n".join([*lines, f"Took {seconds:.0f} s."])


def _summary(findings: Sequence[Finding]) -> str:
    from pmw.research.audit.report import Verdict

    sound = [finding for finding in findings if finding.expected is Verdict.SOUND]
    flawed = [finding for finding in findings if finding.expected is Verdict.VIOLATES]
    kept = sum(finding.verdict is Verdict.SOUND for finding in sound)
    caught = sum(finding.verdict is Verdict.VIOLATES for finding in flawed)
    parts = []
    if sound:
        parts.append(f"{kept} of {len(sound)} keep their claim")
    if flawed:
        parts.append(f"{caught} of {len(flawed)} flawed ones are shown to violate it, as expected")
    return "; ".join(parts) + "."
