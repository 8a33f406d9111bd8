"""What ``pmw audit`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from pmw.research.audit.report import AuditOptions, Finding, Verdict, audit_table, witness_text


def audit_text(findings: Sequence[Finding], options: AuditOptions, *, show: bool = False) -> str:
    """Return the table of an audit, with ``show`` also the witnesses, and what it amounts to."""
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
