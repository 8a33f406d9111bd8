"""Reports: what an audit found of each mechanism, beside its claim; its witnesses and its picture."""

from __future__ import annotations

import enum
import itertools
import math
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pmw.display.figures import INK, MEASURED, MODEL, new_figure, tidy
from pmw.privacy.budget import zcdp_epsilon
from pmw.privacy.random_bits import BitSource, fresh_seed, repeatable_seed
from pmw.research.audit.entries import Claim, Depth, Entry, Instance, Measure, worst_found
from pmw.research.audit.statistical import StatisticalFinding, alpha_of, certify
from queries.frozen import dataclass

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_NAMES = {None: "below", 0: "below", 1: "above", -1: "above (negated)"}
_TOLERANCE = 1e-6  # of a log-ratio computed in floating point
_DELTA = 1e-3  # at which runs are held against a claim in zCDP
_WIDTH, _LEAST = 100, 24  # columns of a text or a table, and of its remarks at least
_MOST = 8.0  # ratios beyond are drawn at the right edge, with their number


@dataclass(frozen=True, slots=True)
class Witness:
    """An output of two neighbouring streams.

    Args:
        output: of each test that was made: 0 below, 1 above, -1 where minus the value is above; where values
            are released, None below, and the value.
        probabilities: of the output, on the first and on the second stream.
    """

    instance: Instance
    output: tuple[int | None, ...]
    probabilities: tuple[float, float]
    released: bool = False

    @property
    def log_ratio(self) -> float:
        """ln of the ratio of the probabilities, of the larger to the smaller; infinite where one is 0."""
        low, high = sorted(self.probabilities)
        return math.log(high / low) if low > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return the witness ready for JSON; what is infinite is the text "inf"."""
        return {
            "first": list(self.instance.first),
            "second": list(self.instance.second),
            "thresholds": [self.instance.threshold] * len(self.instance.first),
            "sensitivity": self.instance.sensitivity,
            "output": list(self.output),
            "probabilities": list(self.probabilities),
            "log_ratio": _number(self.log_ratio),
        }


def witness_of(entry: Entry, instance: Instance | None) -> Witness | None:
    """Return the output that an audit's finding rests on.

    None for a sound mechanism, for a stream that reacts to its outputs, and where a claim with a delta or in
    zCDP is about all outputs together.
    """
    pure = entry.claim.measure is Measure.EPSILON and not entry.claim.delta
    if instance is None or not entry.flaw or not pure:
        return None
    for shown in entry.shown:
        if shown.instance == instance:  # the stated output, where several show as much
            here, there = shown.log_probabilities()
            return Witness(instance, shown.said, (math.exp(here), math.exp(there)), shown.released)
    first = entry.distribution(instance.first, instance.threshold)
    second = entry.distribution(instance.second, instance.threshold)
    found = (Witness(instance, output, (first[output], second[output])) for output in first)
    return max((one for one in found if max(one.probabilities) > 0), key=lambda one: one.log_ratio)


def witness_text(name: str, flaw: str, claim: Claim, witness: Witness) -> str:
    """Return the witness of a mechanism in words, at most 100 columns wide."""
    here, there = witness.probabilities
    instance = witness.instance
    said = [
        f"the value {one}" if witness.released and one is not None else _NAMES[one] for one in witness.output
    ]
    rows = (
        ("values on one table", _runs([str(value) for value in instance.first])),
        ("values on the other", _runs([str(value) for value in instance.second])),
        ("sensitivity", f"{instance.sensitivity}: the most that one record changes a value"),
        ("thresholds", _runs([str(instance.threshold)] * len(instance.first))),
        ("output", _runs(said)),
        ("its probability", f"{here:.4g} on one table, {there:.4g} on the other"),
        ("log-ratio", f"{witness.log_ratio:.4f}, claimed {float(claim.value):.4f}"),
    )
    lines = textwrap.wrap(f"{name}: {flaw}", _WIDTH)
    for label, text in rows:
        lines += textwrap.wrap(
            text, _WIDTH, initial_indent=f"  {label:<21}", subsequent_indent=" " * 23, break_long_words=False
        )
    return "\n".join(lines)


def _runs(texts: list[str]) -> str:
    """Return texts in order, three or more of the same as one: 0 x 16, 1."""
    parts = []
    for text, group in itertools.groupby(texts):
        count = len(list(group))
        parts += [f"{text} x {count}"] if count > 2 else [text] * count
    return ", ".join(parts)


class Verdict(enum.Enum):
    """``SOUND``: nothing found beyond the claim. ``VIOLATES``: the claim is false on some instance."""

    SOUND = "sound"
    VIOLATES = "violates"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How mechanisms are audited."""

    exact: bool = True
    runs: int | None = 20_000  # counted, per table; None for no statistical audit
    false_alarm: float = 1e-6  # how often any sound mechanism at all may be accused by the runs
    depth: Depth = Depth.SHORT
    seed: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What was found of one mechanism.

    Args:
        exact: the most that enumeration finds, in the claim's measure; None where nothing was enumerated.
        shown_by: the pair of streams that shows it; None for a stream that reacts to its outputs.
        certified: what runs certify; None where none were made.
        limit: the epsilon that the runs are held against: the claim's, or the one it implies at delta = 1e-3.
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
    """Return what is found of each mechanism."""
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
        stated, alarm = entry.instances[0], alpha_of(options.false_alarm, counted)
        first, second = (partial(entry.draw, one, stated.threshold) for one in (stated.first, stated.second))
        certified = certify((first, second), options.runs, alarm, BitSource(seed), delta=delta)
    witness = witness_of(entry, shown)
    return Finding(entry, exact, shown, certified, limit, time.monotonic() - started, witness)


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


def audit_figure(findings: Sequence[Finding]) -> Figure:
    """Return a picture of found/claimed for each mechanism: enumerated, and certified by runs."""
    figure = new_figure(9, 1.6 + 0.27 * len(findings))
    axes = figure.subplots()
    ratios = [one.exact / one.claimed for one in findings if one.exact is not None]
    ratios += [one.certified.epsilon / one.limit for one in findings if one.certified is not None]
    edge = max([2.0, *(min(_MOST, 1.15 * one) for one in ratios if math.isfinite(one))])
    for row, finding in enumerate(findings):
        _draw_row(axes, row, finding, edge)
    axes.axvline(1, color=INK, linewidth=1)
    names = [f"{one.entry.name} (flawed)" if one.entry.flaw else one.entry.name for one in findings]
    axes.set_yticks(range(len(findings)), names)
    axes.set(xlabel="found / claimed", xlim=(0, 1.12 * edge), ylim=(len(findings) - 0.4, -0.6))
    axes.set_title("Audit: at most 1 keeps the claim, beyond 1 violates it", loc="left")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    _legend(figure, axes)
    return figure


def _draw_row(axes: Any, row: int, finding: Finding, edge: float) -> None:
    color = MEASURED if finding.verdict is Verdict.VIOLATES else MODEL
    if finding.exact is not None:
        ratio = finding.exact / finding.claimed
        axes.plot([0, min(ratio, edge)], [row, row], color=color, linewidth=1.2)
        axes.plot(min(ratio, edge), row, ">" if ratio > edge else "o", color=color, markersize=6)
        if ratio > edge:
            axes.annotate(
                "∞" if math.isinf(ratio) else f"{ratio:.3g}",
                (edge, row), xytext=(6, 0), textcoords="offset points", va="center", color=INK, fontsize=8,
            )  # fmt: skip
    if finding.certified is not None:
        ratio = finding.certified.epsilon / finding.limit
        axes.plot(min(ratio, edge), row, "|", color=color, markersize=11, markeredgewidth=2)


def _legend(figure: Figure, axes: Any) -> None:
    drawn = [
        ("o", MODEL, "enumerated: keeps its claim"),
        ("o", MEASURED, "enumerated: violates it"),
        ("|", INK, "certified by runs"),
    ]
    handles = [
        axes.plot([], [], mark, color=color, linestyle="none", markersize=8, label=label)[0]
        for mark, color, label in drawn
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
