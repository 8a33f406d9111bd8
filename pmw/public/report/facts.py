"""Facts: what a report is made of, all of it public, and what follows from it of the questions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pmw.public.ledger import Ledger
from pmw.public.pictures import NINE_TENTHS, quantile_of
from pmw.public.state import PublicState
from pmw.public.status import History, Status


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question as it was answered for the first time.

    Args:
        scope: attribute names in declared order; none where it is about everybody.
        reach: how far the error bar goes from the answer, to the farther end, in records; NaN where nothing
            was promised.
    """

    scope: tuple[str, ...]
    reach: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What a report is made of.

    Args:
        state: what may be published of the session.
        status: where it stands.
        history: how its budget was spent.
        ledger: every charge.
        questions: the distinct questions, in the order of their first answers.
    """

    state: PublicState
    status: Status
    history: History
    ledger: Ledger
    questions: tuple[AnsweredQuestion, ...]


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """Questions taken together.

    Args:
        questions: how many there are.
        promised: how many of them have an error bar.
        median: half of the error bars reach no farther, in records; NaN where there is none.
        most: nine of ten reach no farther, in records; NaN likewise.
    """

    questions: int
    promised: int
    median: float
    most: float

    @classmethod
    def of(cls, questions: Sequence[AnsweredQuestion]) -> QuestionGroup:
        """Return some questions taken together."""
        reaches = [one.reach for one in questions if not math.isnan(one.reach)]
        return cls(len(questions), len(reaches), quantile_of(reaches, 0.5), quantile_of(reaches, NINE_TENTHS))


def group_questions(facts: Facts, *, by_number: bool) -> dict[tuple[str, ...] | int, QuestionGroup]:
    """Return questions by how many attributes they are about, or by which; the most asked first by which.

    Args:
        facts: of the session.
        by_number: by the number of attributes, in its order.
    """
    found: defaultdict[tuple[str, ...] | int, list[AnsweredQuestion]] = defaultdict(list)
    for one in facts.questions:
        found[len(one.scope) if by_number else one.scope].append(one)
    groups = {key: QuestionGroup.of(questions) for key, questions in found.items()}
    if by_number:
        return dict(sorted(groups.items(), key=lambda item: str(item[0]).rjust(9)))
    return dict(sorted(groups.items(), key=lambda item: -item[1].questions))
