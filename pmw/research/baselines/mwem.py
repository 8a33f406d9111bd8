"""MWEM and the lecture's offline private multiplicative weights, for questions that are known beforehand.

Both are ``fit_workload`` with questions to choose among: noise, charges and models are those of a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pmw.privacy.budget import Number
from pmw.public.options import Opening, Options, TestKind, UpdateRule
from pmw.research.histograms import Counts, Question, counted, queries_of
from pmw.research.offline import OfflineOptions, OfflineRelease, Targets, fit_workload

_ROUNDS = 10  # of the paper's experiments, most of which have 10 or fewer


def mwem(
    histogram: Counts,
    questions: Sequence[Question],
    *,
    epsilon: Number,
    delta: Number = 0,
    options: OfflineOptions | None = None,
) -> OfflineRelease:
    """Return what MWEM releases: in each round the question that the model answers worst is measured.

    Args:
        histogram: records per cell, or a table that ``source_of`` read.
        questions: two or more, of which arrays have the histogram's shape.
        options: of a release that measures questions; None for the paper's: ten rounds from a uniform start,
            half of each for the choice.

    Privacy: (epsilon, delta)-differentially private for the neighbours of ``options.policy``, as
        ``fit_workload``; each round is charged before it is drawn.

    Source: Hardt, Ligett and McSherry (2012), Figure 1, with the number of records released beside it, and a
        refit to all measurements where they average models and take each measurement up again.
    """
    source = counted(histogram)
    if options is None:
        policy = Options(test=TestKind.QUERY, opening=Opening.NONE, update=UpdateRule.REFIT)
        options = OfflineOptions(Targets.QUERY, _ROUNDS, Fraction(1, 2), policy=policy)
    workload = queries_of(questions, source.domain)
    return fit_workload(source, source.domain, workload, epsilon=epsilon, delta=delta, options=options)


def offline_pmw(
    histogram: Counts,
    questions: Sequence[Question],
    rounds: int,
    *,
    epsilon: Number,
    delta: Number = 0,
    policy: Options | None = None,
) -> OfflineRelease:
    """Return what the lecture's offline private multiplicative weights release.

    Args:
        rounds: the most there will be; the first error that is measured as small ends it.
        policy: neighbours, composition, threshold and seed, as for ``OfflineOptions.textbook``.

    Privacy: as ``mwem``.

    Source: Kamath, Lecture 9, private multiplicative weights, steps 1 to 3.
    """
    options = OfflineOptions.textbook(rounds=rounds, policy=policy)
    return mwem(histogram, questions, epsilon=epsilon, delta=delta, options=options)
