"""The catalogue: sound mechanisms keep their claims and come near them, flawed ones are caught both ways."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from pmw.display.figures import MEASURED, MODEL
from pmw.errors import BudgetError
from pmw.research.audit import OutputDistribution
from pmw.research.audit.catalogue import catalogue, chosen
from pmw.research.audit.entries import Claim, Depth, Instance, Measure, divergence, pairs_of
from pmw.research.audit.report import (
    AuditOptions,
    Finding,
    Verdict,
    Witness,
    audit,
    audit_figure,
    audit_table,
    witness_text,
)
from tests.worlds import known

ENTRIES = catalogue()
SOUND = [name for name, entry in ENTRIES.items() if entry.keeps_claim]
BROKEN = [name for name, entry in ENTRIES.items() if not entry.keeps_claim]
RUN = [name for name, entry in ENTRIES.items() if entry.draw is not None]
# What enumeration finds, and what is claimed; the other flawed ones are at the figures of their examples.
FIGURES = {
    "one-too-many": (2 * 4, 4),  # c + 1 = 2 positives, paid for 1
    "laplace-inside": (0.7988, 1),
    "shared-threshold": (4 / 3, 5 / 6),
    "shared-threshold-general": (4 / 3, 4 / 3),
}


def audited(name: str, **options: object) -> Finding:
    (finding,) = audit(chosen([name]), AuditOptions(**options))  # type: ignore[arg-type]  # by their names
    return finding


@cache
def enumerated(name: str) -> tuple[Finding, float]:
    """Return what enumeration finds, with the number apart."""
    finding = audited(name, runs=None)
    assert finding.exact is not None
    return finding, finding.exact


def witness_of(name: str) -> Witness:
    return known(enumerated(name)[0].witness)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_mechanism_keeps_its_claim_and_comes_within_5_percent_of_it(name: str) -> None:
    finding, exact = enumerated(name)
    assert finding.verdict is finding.expected is Verdict.SOUND
    assert exact <= finding.claimed + 1e-9
    if finding.entry.claim.tight and not finding.entry.flaw:
        assert exact >= 0.95 * finding.claimed
    if not finding.entry.flaw:
        assert finding.witness is None
        assert "witness" not in finding.to_dict()


@pytest.mark.parametrize("name", BROKEN)
def test_a_flawed_mechanism_is_caught_by_enumeration(name: str) -> None:
    finding, exact = enumerated(name)
    assert finding.verdict is Verdict.VIOLATES
    assert exact > 1.5 * finding.claimed
    assert finding.shown_by is not None


@pytest.mark.parametrize("name", FIGURES)
def test_enumeration_finds_the_figures_of_the_literature(name: str) -> None:
    finding, exact = enumerated(name)
    assert (exact, finding.claimed) == pytest.approx(FIGURES[name], rel=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in RUN if name in BROKEN])
def test_a_slip_in_the_threshold_noise_is_caught_by_runs_alone(name: str) -> None:
    finding = audited(name, exact=False, runs=50_000, seed=6, false_alarm=1e-6 / len(RUN))
    assert finding.verdict is Verdict.VIOLATES
    assert finding.exact is None
    assert finding.witness is None
    assert finding.found > finding.claimed


@pytest.mark.statistical
def test_no_sound_mechanism_is_accused_by_its_runs() -> None:
    sound = [name for name in RUN if name in SOUND]
    findings = audit(chosen(sound), AuditOptions(exact=False, runs=500, seed=7))
    assert all(finding.verdict is Verdict.SOUND for finding in findings)
    assert len(findings) == sum(finding.certified is not None for finding in findings) >= 17


def test_a_divergence_is_in_the_measure_of_the_claim() -> None:
    first: OutputDistribution = {(0,): 0.75, (1,): 0.25}
    second: OutputDistribution = {(0,): 0.25, (1,): 0.75}
    assert divergence(Claim(Measure.EPSILON, Fraction(1)), first, second) == pytest.approx(math.log(3))
    at_delta = divergence(Claim(Measure.EPSILON, Fraction(1), Fraction(1, 4)), first, second)
    assert at_delta == pytest.approx(math.log(2), abs=1e-6)  # 3/4 - e^epsilon/4 = 1/4
    assert divergence(Claim(Measure.EPSILON, Fraction(1), Fraction(1, 2)), first, second) == 0
    rho = divergence(Claim(Measure.RHO, Fraction(1)), first, second)
    assert rho >= math.log(0.75**2 / 0.25 + 0.25**2 / 0.75) / 2 - 1e-12  # the order 2


def test_instances_are_neighbours_and_monotone_ones_move_one_way() -> None:
    for name, entry in ENTRIES.items():
        for pair in pairs_of(entry, Depth.SHORT):
            moves = {two - one for one, two in zip(pair.first, pair.second, strict=True)}
            assert pair in entry.instances or moves <= {-1, 0, 1}
            assert not entry.monotone or moves <= {0, 1} or moves <= {0, -1}, name
    with pytest.raises(BudgetError, match="differ by at most 1"):
        Instance((0, 0), (2, 0))
    with pytest.raises(BudgetError, match="streams of one length"):
        Instance((0, 0), (1,))


def test_names_are_told_apart() -> None:
    assert [entry.name for entry in chosen(["sparse", "gptt", "sparse"])] == ["sparse", "gptt"]
    with pytest.raises(BudgetError, match="did you mean 'algorithm-3'"):
        chosen(["algoritm-3"])
    assert [entry.name for entry in chosen((), runs_only=True)] == RUN
    with pytest.raises(BudgetError, match="'gptt', which is only enumerated"):
        chosen(["sparse", "gptt"], runs_only=True)


def test_the_table_says_what_is_wrong_and_what_was_not_expected() -> None:
    finding, _ = enumerated("algorithm-5")
    assert "inf" in audit_table([finding])
    assert "no noise on tests" in audit_table([finding])
    rows = audit_table(enumerated(name)[0] for name in ("exponential-monotone-redrawn", "laplace-inside"))
    assert all(len(row) <= 100 for row in rows.splitlines())
    assert "a negative shows that T + rho > 0" in " ".join(rows.split())
    sound = replace(finding.entry, keeps_claim=True, flaw="")
    accused = Finding(sound, 2.0, None, None, 1.0, 0.0)
    assert "NOT EXPECTED: proved sound" in audit_table([accused])


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.flaw])
def test_a_witness_shows_what_was_found(name: str) -> None:
    (finding, exact), witness, instance = enumerated(name), witness_of(name), enumerated(name)[0].shown_by
    assert instance is not None
    assert witness.instance == instance
    assert witness.log_ratio == pytest.approx(exact, abs=1e-6)
    assert 0 < max(witness.probabilities) < 1
    assert len(witness.output) <= len(instance.first)
    gaps = [abs(one - two) for one, two in zip(instance.first, instance.second, strict=True)]
    assert max(gaps) == instance.sensitivity
    text = witness_text(name, finding.entry.flaw, finding.entry.claim, witness)
    assert all(len(line) <= 100 for line in text.splitlines())
    form = finding.to_dict()["witness"]
    assert form["sensitivity"] == instance.sensitivity
    assert len(form["thresholds"]) == len(form["first"]) == len(form["second"])


def test_every_mechanism_has_its_row_and_its_colour_in_a_picture() -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    names = ["above-threshold", "algorithm-4", "algorithm-5"]
    axes: Any = audit_figure(audit(chosen(names), AuditOptions(runs=100, seed=1))).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "above-threshold", "algorithm-4 (flawed)", "algorithm-5 (flawed)",
    ]  # fmt: skip
    points = [line for line in axes.lines if line.get_marker() in ("o", ">") and len(line.get_xdata())]
    assert [line.get_color() for line in points] == [MODEL, MEASURED, MEASURED]
    assert points[0].get_xdata()[0] == pytest.approx(1, abs=1e-3)
    assert points[1].get_xdata()[0] == pytest.approx(6.25, abs=0.01)
    assert points[2].get_marker() == ">"
    assert [text.get_text() for text in axes.texts] == ["∞"]
    low, high = axes.get_xlim()
    assert all(low <= x <= high for line in points for x in line.get_xdata())
