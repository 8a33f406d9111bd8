"""Reports: what an audit found of each mechanism, beside its claim."""

from __future__ import annotations

import enum
import math
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pmw.privacy.budget import zcdp_epsilon
from pmw.privacy.random_bits import BitSource, fresh_seed, repeatable_seed
from pmw.research.audit.entries import Depth, Entry, Instance, Measure, worst_found
from pmw.research.audit.statistical import FalseAlarm, StatisticalFinding, certify
from pmw.research.audit.witness import Witness, witness_of

_TOLERANCE = 1e-6  # of a log-ratio computed in floating point
_DELTA = 1e-3  # at which runs are held against a claim in zCDP
_WIDTH, _LEAST = 100, 24  # columns of a table, and of its remarks at least


class Verdict(enum.Enum):
    """``SOUND``: nothing found beyond the claim. ``VIOLATES``: the claim is false on some instance."""

    SOUND = "sound"
    VIOLATES = "violates"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How mechanisms are audited.

    Args:
        exact: enumerate outputs over neighbours.
        runs: counted runs per table of the statistical audit; None for no such audit.
        false_alarm: how often any sound mechanism at all may be accused by the runs.
        depth: how far neighbours are searched.
        seed: repeats the runs; None for fresh bytes.
    """

    exact: bool = True
    runs: int | None = 20_000
    false_alarm: float = 1e-6
    depth: Depth = Depth.SHORT
    seed: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What was found of one mechanism.

    Args:
        entry: the mechanism.
        exact: the most that enumeration finds, in the claim's measure; None where nothing was enumerated.
        shown_by: the pair of streams that shows it; None for a stream that reacts to its outputs.
        certified: what runs certify; None where none were made.
        limit: the epsilon that the runs are held against: the claim's, or the one it implies at delta = 1e-3.
        seconds: taken.
        witness: of a flawed mechanism, the output that tells that pair apart; None where nothing was
            enumerated.
    """

    entry: Entry
    exact: float | None
    shown_by: Instance | None
    certified: StatisticalFinding | None
    limit: float
    seconds: float
    witness: Witness | None = None

    @property
    def claimed(self) -> float:
        """The claim, in its measure."""
        return float(self.entry.claim.value)

    @property
    def found(self) -> float:
        """What enumeration found, or else what runs certify."""
        if self.exact is not None:
            return self.exact
        return 0.0 if self.certified is None else self.certified.epsilon

    @property
    def verdict(self) -> Verdict:
        """Whether either audit contradicts the claim."""
        by_exact = self.exact is not None and self.exact > self.claimed + _TOLERANCE
        by_runs = self.certified is not None and self.certified.epsilon > self.limit
        return Verdict.VIOLATES if by_exact or by_runs else Verdict.SOUND

    @property
    def expected(self) -> Verdict:
        """The verdict that the literature, or a proof, leads to expect."""
        return Verdict.SOUND if self.entry.keeps_claim else Verdict.VIOLATES

    def to_dict(self) -> dict[str, Any]:
        """Return the finding ready for JSON; what is infinite is the text "inf"."""
        form: dict[str, Any] = {
            "mechanism": self.entry.name,
            "claimed": self.claimed,
            "found": _number(self.found),
            "verdict": self.verdict.value,
            "measure": self.entry.claim.measure.value,
            "delta": float(self.entry.claim.delta),
            "expected": self.expected.value,
            "flaw": self.entry.flaw or None,
            "source": self.entry.source,
            "exact": None if self.exact is None else _number(self.exact),
            "certified": None,
            "seconds": round(self.seconds, 2),
        }
        if self.shown_by is not None:
            form["instance"] = {
                "first": list(self.shown_by.first),
                "second": list(self.shown_by.second),
                "threshold": self.shown_by.threshold,
            }
        if self.witness is not None:
            form["witness"] = self.witness.to_dict()
        if self.certified is not None:
            form["certified"] = self.certified.epsilon
            form["runs"] = self.certified.runs
            form["occurrences"] = list(self.certified.occurrences)
            form["limit"] = self.limit
        return form


def audit(
    entries: Sequence[Entry], options: AuditOptions, tell: Callable[[Finding], None] | None = None
) -> tuple[Finding, ...]:
    """Return what is found of each mechanism.

    Args:
        entries: the mechanisms.
        options: how they are audited.
        tell: is given each finding as it comes.
    """
    counted = sum(1 for entry in entries if entry.draw is not None)
    findings = []
    for number, entry in enumerate(entries):
        finding = _find(entry, options, number, max(counted, 1))
        findings.append(finding)
        if tell is not None:
            tell(finding)
    return tuple(findings)


def _find(entry: Entry, options: AuditOptions, number: int, counted: int) -> Finding:
    started = time.monotonic()
    exact, shown = worst_found(entry, options.depth) if options.exact else (None, None)
    limit, delta = _limit(entry)
    certified = None
    if options.runs is not None and entry.draw is not None:
        seed = fresh_seed() if options.seed is None else repeatable_seed(options.seed, number)
        certified = _certified(
            entry, options.runs, FalseAlarm(options.false_alarm, counted), BitSource(seed), delta
        )
    witness = witness_of(entry, shown)
    return Finding(entry, exact, shown, certified, limit, time.monotonic() - started, witness)


def _certified(
    entry: Entry, runs: int, false_alarm: FalseAlarm, bits: BitSource, delta: float
) -> StatisticalFinding | None:
    draw, stated = entry.draw, entry.instances[0]
    if draw is None:
        return None
    return certify(
        (
            lambda count, source: draw(stated.first, stated.threshold, count, source),
            lambda count, source: draw(stated.second, stated.threshold, count, source),
        ),
        runs,
        false_alarm,
        bits,
        delta=delta,
    )


def _limit(entry: Entry) -> tuple[float, float]:
    """Return the epsilon and the delta that runs are held against."""
    value = float(entry.claim.value)
    if entry.claim.measure is Measure.EPSILON:
        return value, float(entry.claim.delta)
    return zcdp_epsilon(value, _DELTA), _DELTA


def audit_table(findings: Iterable[Finding]) -> str:
    """Return the table of mechanisms: claimed, found, certified by runs, verdict."""
    rows = [("mechanism", "claimed", "found", "by runs", "verdict", "")]
    rows += [
        (
            finding.entry.name,
            f"{finding.claimed:.4f}",
            "" if finding.exact is None else f"{finding.exact:.4f}",
            "" if finding.certified is None else f"{finding.certified.epsilon:.2f}",
            finding.verdict.value,
            _remark(finding),
        )
        for finding in findings
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(5)]
    indent = sum(widths) + 2 * len(widths)
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(row[place].rjust(widths[place]) for place in (1, 2, 3)), row[4]]
        remarks = textwrap.wrap(row[5], max(_WIDTH - indent, _LEAST)) or [""]
        lines.append(f"{'  '.join(cells):<{indent}}{remarks[0]}".rstrip())
        lines += [" " * indent + more for more in remarks[1:]]
    return "\n".join(lines)


def _remark(finding: Finding) -> str:
    claim = finding.entry.claim
    if finding.verdict is finding.expected and not finding.entry.flaw:
        at_delta = f"at delta = {float(claim.delta):g}" if claim.delta else ""
        return "rho, in zCDP" if claim.measure is Measure.RHO else finding.entry.remark or at_delta
    if finding.verdict is finding.expected:
        return finding.entry.flaw
    return f"NOT EXPECTED: {finding.entry.flaw or 'proved sound'}"


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"
