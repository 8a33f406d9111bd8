"""Repeats: which answer a question gets that has a stored one.

An idempotency key always gets its own. Else it is the stored answer, until a newer model has a bar that is
narrower by a tenth. To look at the model's bar touches no record and charges nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pmw.public.answer import Answer, Basis, Source
from pmw.public.range_answers import KINDS, RangeAnswers, answers_together
from pmw.public.state import PublicState

UNTESTED = (Source.EXHAUSTED.value, Source.UNVERIFIED.value)

KEYED = sys.maxsize
_NARROWER = 0.9  # of a stored bar: as wide a bar of a newer model replaces it
_TESTED = [place for place, kind in enumerate(KINDS) if kind is not None and kind.basis is Basis.TESTED]


def is_better(stored: RangeAnswers, now: RangeAnswers) -> NDArray[np.bool_]:
    """Tell of which questions the model's answers are given in place of the stored ones: bool, shape (n,).

    Those whose model is newer and whose bar is narrower by a tenth: 0.9 of the stored one, or less. A stored
    answer without a bar gives way to any answer with one.

    Args:
        stored: the answers that are stored, shape (n,).
        now: the model's answers to the same questions.
    """
    before, found = _widths(stored), _widths(now)
    is_newer = (now.version > stored.version) | np.isnan(before)
    before = np.where(np.isnan(before), math.inf, before)
    return is_newer & (found < before) & (found <= _NARROWER * before)


def rests_on_test(state: PublicState, answers: RangeAnswers) -> NDArray[np.bool_]:
    """Tell which answers a test decided: another test of the same model would be noise: bool, shape (n,)."""
    sources = [Source.MEASURED]
    if not state.contract.options.tests_marginals:
        sources.append(Source.SYNTHETIC)  # what released numbers do not cover has it by its test alone
    codes = [answers.sources.index(source) for source in sources]
    return np.isin(answers.source, codes) | np.isin(answers.kind, _TESTED)


def _widths(answers: RangeAnswers) -> NDArray[np.float64]:
    """Return the widths of intervals, in records: float64, shape (n,); NaN where there is none."""
    widths: NDArray[np.float64] = answers.interval[:, 1] - answers.interval[:, 0]
    return widths


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored answer, as it was read.

    Args:
        answer: as it was released.
        analyst: who asked first; empty where nobody was named.
        looked: the version of the newest model whose bar it was compared with. ``KEYED`` is above all
            versions: the answer of an idempotency key is compared with none.

    Attributes:
        is_final: whether it is given to whoever asks, unless afresh.
    """

    answer: Answer
    analyst: str
    looked: int
    is_final: bool = field(init=False)

    def __post_init__(self) -> None:
        source = self.answer.source
        left = bool(self.analyst) and source.value in UNTESTED
        object.__setattr__(self, "is_final", source is not Source.REFUSED and not left)

    def is_due(self, version: int, *, fresh: bool) -> bool:
        """Tell whether the bar of a model of this version is looked at: once, or where there is none."""
        return self.looked < version or (fresh and self.answer.interval is None and self.looked != KEYED)

    def is_asked_again(self, state: PublicState, is_tested: Callable[[], bool], *, fresh: bool) -> bool:
        """Tell whether the question is asked once more, as if it had no stored answer.

        So is what was refused, for what was measured since may answer it; what an analyst whose share was
        spent was told without a test, by whoever can pay for one; and what is asked afresh, where the model
        is newer or a test can be made that was not.

        Args:
            state: the public state.
            is_tested: whether the question would be tested now.
            fresh: whether it is asked afresh.
        """
        if self.answer.is_refused:
            return True
        if not fresh:
            return not self.is_final and is_tested()
        if self.answer.version < state.version:
            return True
        return is_tested() and not rests_on_test(state, answers_together(state, [self.answer]))[0]


class Looks:
    """Which models the stored answers were compared with, by the numbers of the answers; in memory alone."""

    def __init__(self) -> None:
        self._versions = np.zeros(0, dtype=np.int32)

    def are_due(
        self, numbers: NDArray[np.int64], versions: NDArray[np.int64], version: int
    ) -> NDArray[np.bool_]:
        """Tell which answers are to be compared with a model: bool, shape (n,).

        Args:
            numbers: int64, shape (n,), of the answers.
            versions: int64, shape (n,), of the models that they came from.
            version: of the model now.
        """
        due = versions < version
        own = np.flatnonzero(due)
        if own.size:
            self._reach(int(numbers[own].max()))
            due[own] = self._versions[numbers[own]] < version
        return due

    def note(self, numbers: NDArray[np.int64], version: int) -> None:
        """Note that answers were compared with a model of this version."""
        self._reach(int(numbers.max(initial=0)))
        self._versions[numbers] = version

    def _reach(self, number: int) -> None:
        if number >= self._versions.size:
            more = np.zeros(2 * number + 1 - self._versions.size, dtype=np.int32)
            self._versions = np.concatenate([self._versions, more])
