"""The catalogue: sound mechanisms keep their claims and come near them, flawed ones are caught both ways."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from pmw.errors import BudgetError
from pmw.research.audit import OutputDistribution
from pmw.research.audit.catalogue import catalogue, chosen
from pmw.research.audit.entries import (
    Claim,
    Depth,
    Entry,
    Instance,
    Measure,
    divergence,
    pairs_of,
    worst_found,
)
from pmw.research.audit.report import AuditOptions, Finding, Verdict, audit, audit_table, witness_text
from pmw.research.sparse_vectors.flawed import COUNTEREXAMPLES

ENTRIES = catalogue()
SOUND = [name for name, entry in ENTRIES.items() if entry.keeps_claim]
BROKEN = [name for name, entry in ENTRIES.items() if not entry.keeps_claim]
RUN = [name for name, entry in ENTRIES.items() if entry.draw is not None]


def audited(name: str, **options: object) -> Finding:
    (finding,) = audit(chosen([name]), AuditOptions(**options))  # type: ignore[arg-type]  # by their names
    return finding


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_mechanism_keeps_its_claim_and_comes_within_5_percent_of_it(name: str) -> None:
    finding = audited(name, runs=None)
    assert finding.verdict is Verdict.SOUND
    assert finding.exact is not None
    assert finding.exact <= finding.claimed + 1e-9
    if finding.entry.claim.tight and not finding.entry.flaw:
        assert finding.exact >= 0.95 * finding.claimed


@pytest.mark.parametrize("name", BROKEN)
def test_a_flawed_mechanism_is_caught_by_enumeration(name: str) -> None:
    finding = audited(name, runs=None)
    assert finding.verdict is Verdict.VIOLATES
    assert finding.exact is not None
    assert finding.exact > 1.5 * finding.claimed
    assert finding.shown_by is not None


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in RUN if name in BROKEN])
def test_a_slip_in_the_threshold_noise_is_caught_by_runs_alone(name: str) -> None:
    finding = audited(name, exact=False, runs=100_000, seed=6, false_alarm=1e-6 / len(RUN))
    assert finding.verdict is Verdict.VIOLATES
    assert finding.exact is None
    assert finding.found > finding.claimed


@pytest.mark.statistical
def test_no_sound_mechanism_is_accused_by_its_runs() -> None:
    sound = [name for name in RUN if name in SOUND]
    findings = audit(chosen(sound), AuditOptions(exact=False, runs=1500, seed=7))
    assert all(finding.verdict is Verdict.SOUND for finding in findings)
    assert len(findings) == sum(finding.certified is not None for finding in findings) >= 17


@pytest.mark.parametrize("negatives", [2, 4, 8, 16])
def test_algorithm_3_costs_half_an_epsilon_for_each_negative_but_one(negatives: int) -> None:
    found = {len(shown.instance.first) - 1: shown.log_ratio() for shown in ENTRIES["algorithm-3"].shown}
    assert found[negatives] == pytest.approx((negatives - 1) / 2, abs=1e-9)


def test_algorithm_4_attains_its_bound() -> None:
    found = {
        one.mechanism.update_limit or 0: one.log_ratio()
        for one in COUNTEREXAMPLES
        if one.mechanism.name == "Algorithm 4"
    }
    for limit in (1, 2, 4):
        assert found[limit] == pytest.approx((1 + 6 * limit) / 4, rel=0.01)
    assert audited("algorithm-4", runs=None).exact == pytest.approx((1 + 6 * 4) / 4, rel=0.01)


def test_one_too_many_is_judged_on_the_share_of_the_tests() -> None:
    finding = audited("one-too-many", runs=None)
    assert finding.exact == pytest.approx(2 * finding.claimed, rel=1e-3)  # c + 1 = 2 positives, paid for 1


def test_laplace_noise_inside_is_flawed_and_keeps_its_claim() -> None:
    finding = audited("laplace-inside", runs=None)
    assert finding.entry.flaw
    assert finding.verdict is finding.expected is Verdict.SOUND
    assert finding.exact is not None
    assert 0.75 * finding.claimed < finding.exact < finding.claimed


def test_a_scale_that_undercharges_is_caught() -> None:
    entry = ENTRIES["exponential"]
    low = Claim(Measure.EPSILON, entry.claim.value * Fraction(10, 13))
    found, _ = worst_found(entry, Depth.SHORT)
    assert found > float(low.value) + 0.2


def test_a_divergence_is_in_the_measure_of_the_claim() -> None:
    first: OutputDistribution = {(0,): 0.75, (1,): 0.25}
    second: OutputDistribution = {(0,): 0.25, (1,): 0.75}
    assert divergence(Claim(Measure.EPSILON, Fraction(1)), first, second) == pytest.approx(math.log(3))
    at_delta = divergence(Claim(Measure.EPSILON, Fraction(1), Fraction(1, 4)), first, second)
    assert at_delta == pytest.approx(math.log(2), abs=1e-6)  # 3/4 - e^epsilon/4 = 1/4
    assert divergence(Claim(Measure.EPSILON, Fraction(1), Fraction(1, 2)), first, second) == 0
    rho = divergence(Claim(Measure.RHO, Fraction(1)), first, second)
    at_2 = math.log(0.75**2 / 0.25 + 0.25**2 / 0.75) / 2
    assert rho >= at_2 - 1e-12


def test_instances_are_neighbours() -> None:
    for entry in ENTRIES.values():
        moves = {
            two - one
            for pair in pairs_of(entry, Depth.SHORT)
            if entry.monotone and pair not in entry.instances
            for one, two in zip(pair.first, pair.second, strict=True)
        }
        assert moves <= {-1, 0, 1}
    with pytest.raises(BudgetError, match="differ by at most 1"):
        Instance((0, 0), (2, 0))
    with pytest.raises(BudgetError, match="streams of one length"):
        Instance((0, 0), (1,))


def test_monotone_claims_are_held_against_values_that_move_one_way() -> None:
    for entry in ENTRIES.values():
        if entry.monotone:
            for pair in entry.instances:
                moves = {two - one for one, two in zip(pair.first, pair.second, strict=True)}
                assert moves <= {0, 1} or moves <= {0, -1}, entry.name


def test_the_long_audit_searches_more() -> None:
    entry = ENTRIES["exponential"]
    assert len(list(pairs_of(entry, Depth.LONG))) > 2 * len(list(pairs_of(entry, Depth.SHORT)))


def test_names_are_told_apart() -> None:
    assert [entry.name for entry in chosen(["sparse", "gptt", "sparse"])] == ["sparse", "gptt"]
    with pytest.raises(BudgetError, match="did you mean 'algorithm-3'"):
        chosen(["algoritm-3"])
    assert [entry.name for entry in chosen((), runs_only=True)] == RUN
    with pytest.raises(BudgetError, match="'gptt', which is only enumerated"):
        chosen(["sparse", "gptt"], runs_only=True)


def test_the_table_says_what_is_wrong_and_what_was_not_expected() -> None:
    finding = audited("algorithm-5", runs=None)
    assert "inf" in audit_table([finding])
    assert "no noise on tests" in audit_table([finding])
    sound = Entry(
        **{name: getattr(finding.entry, name) for name in Entry.__slots__} | {"keeps_claim": True, "flaw": ""}
    )
    accused = Finding(sound, 2.0, None, None, 1.0, 0.0)
    assert "NOT EXPECTED: proved sound" in audit_table([accused])


def test_a_repeated_audit_makes_the_same_runs() -> None:
    first, second, other = (
        audited("exponential", exact=False, runs=500, seed=seed).certified for seed in (1, 1, 2)
    )
    assert first == second != other


@pytest.mark.parametrize("name", [name for name in BROKEN if ENTRIES[name].flaw] + ["laplace-inside"])
def test_a_witness_shows_what_was_found(name: str) -> None:
    finding = audited(name, runs=None)
    witness, instance = finding.witness, finding.shown_by
    assert witness is not None
    assert instance is not None
    assert finding.exact is not None
    assert witness.instance == instance
    assert witness.log_ratio == pytest.approx(finding.exact, abs=1e-6)
    assert 0 < max(witness.probabilities) < 1
    assert len(witness.output) <= len(instance.first)
    gaps = [abs(one - two) for one, two in zip(instance.first, instance.second, strict=True)]
    assert max(gaps) == instance.sensitivity
    text = witness_text(name, finding.entry.flaw, finding.entry.claim, witness)
    assert all(len(line) <= 100 for line in text.splitlines())
    form = finding.to_dict()["witness"]
    assert form["sensitivity"] == instance.sensitivity
    assert len(form["thresholds"]) == len(form["first"]) == len(form["second"])


def test_a_sound_mechanism_has_no_witness() -> None:
    finding = audited("exponential", runs=None)
    assert finding.witness is None
    assert "witness" not in finding.to_dict()
    assert audited("no-threshold-noise", exact=False, runs=500, seed=1).witness is None


def test_algorithm_5_is_shown_by_the_papers_own_output() -> None:
    witness = audited("algorithm-5", runs=None).witness
    assert witness is not None
    assert (witness.instance.first, witness.instance.second) == ((0, 1), (1, 0))
    assert witness.output == (0, 1)
    assert witness.probabilities[0] > 0
    assert witness.probabilities[1] == 0
    assert witness.to_dict()["log_ratio"] == "inf"


def test_one_threshold_for_both_signs_is_sound_at_the_general_price_alone() -> None:
    monotone, general = (
        audited(name, runs=None) for name in ("shared-threshold", "shared-threshold-general")
    )
    assert monotone.exact == pytest.approx(4 / 3, abs=1e-6)
    assert monotone.claimed == pytest.approx(5 / 6)
    assert monotone.verdict is Verdict.VIOLATES
    assert general.exact == pytest.approx(general.claimed) == pytest.approx(4 / 3)
    assert general.verdict is Verdict.SOUND
    assert not general.entry.monotone


def test_a_table_stays_within_100_columns() -> None:
    findings = audit(chosen(["exponential-monotone-redrawn", "laplace-inside"]), AuditOptions(runs=None))
    rows = audit_table(findings).splitlines()
    assert all(len(row) <= 100 for row in rows)
    assert "a negative shows that T + rho > 0" in " ".join(" ".join(rows).split())
