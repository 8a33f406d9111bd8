"""Witnesses: the output that tells two neighbouring streams apart, and its probability on both."""

from __future__ import annotations

import itertools
import math
import textwrap
from dataclasses import dataclass
from typing import Any

from pmw.research.audit.entries import Claim, Entry, Instance, Measure

_WIDTH = 100  # columns of a text
_NAMES = {None: "below", 0: "below", 1: "above", -1: "above (negated)"}


@dataclass(frozen=True, slots=True)
class Witness:
    """An output of two neighbouring streams.

    Args:
        instance: the streams, their threshold and their sensitivity.
        output: of each test that was made: 0 below, 1 above, -1 where minus the value is above; where values
            are released, None below, and the value.
        probabilities: of the output, on the first and on the second stream.
        released: positives release values.
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
            "log_ratio": self.log_ratio if math.isfinite(self.log_ratio) else "inf",
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
            return Witness(
                instance, shown.output, shown.probabilities(), any(o is None for o in shown.output)
            )
    first = entry.distribution(instance.first, instance.threshold)
    second = entry.distribution(instance.second, instance.threshold)
    found = (Witness(instance, output, (first[output], second[output])) for output in first)
    return max((one for one in found if max(one.probabilities) > 0), key=lambda one: one.log_ratio)


def witness_text(name: str, flaw: str, claim: Claim, witness: Witness) -> str:
    """Return the witness of a mechanism in words, at most 100 columns wide."""
    here, there = witness.probabilities
    instance = witness.instance
    rows = (
        ("values on one table", _runs([str(value) for value in instance.first])),
        ("values on the other", _runs([str(value) for value in instance.second])),
        ("sensitivity", f"{instance.sensitivity}: the most that one record changes a value"),
        ("thresholds", _runs([str(instance.threshold)] * len(instance.first))),
        ("output", _runs([_said(one, witness.released) for one in witness.output])),
        ("its probability", f"{here:.4g} on one table, {there:.4g} on the other"),
        ("log-ratio", f"{witness.log_ratio:.4f}, claimed {float(claim.value):.4f}"),
    )
    lines = textwrap.wrap(f"{name}: {flaw}", _WIDTH)
    for label, text in rows:
        lines += textwrap.wrap(
            text, _WIDTH, initial_indent=f"  {label:<21}", subsequent_indent=" " * 23, break_long_words=False
        )
    return "\n".join(lines)


def _said(output: int | None, released: bool) -> str:
    return _NAMES[output] if output is None or not released else f"the value {output}"


def _runs(texts: list[str]) -> str:
    """Return texts in order, three or more of the same as one: 0 x 16, 1."""
    parts = []
    for text, group in itertools.groupby(texts):
        count = len(list(group))
        parts += [f"{text} x {count}"] if count > 2 else [text] * count
    return ", ".join(parts)
