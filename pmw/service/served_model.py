"""A model that a service holds: its users get free answers, and nothing is stored, charged or locked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

from pmw.public.answer import Answer
from pmw.public.tables import AnswerTable
from pmw.session.accounts import SESSION, Account, Booked
from pmw.session.asking import Asking
from pmw.session.dialogue import Analyst
from pmw.session.model_file import read_model
from pmw.session.public_model import PublicModel
from pmw.session.requests import Answering, Asked, Part
from pmw.session.session_requests import Kind, Kinds, SessionRequest
from pmw.session.turns import TURN_WORK, Turns
from queries.linear import LinearQuery
from queries.reader import QuestionReader
from queries.statements import Statement


class ServedModel(PublicModel, Analyst):
    """A model in a file, as a service and its users ask it, in turns.

    Any number of processes may serve one file, which is read once. Every question is taken for one that was
    asked before, for its answer is known and free.
    """

    reader = Asking.reader  # one for all users

    def __init__(self, path: Path) -> None:
        super().__init__(*read_model(path))
        self._account, self._turn, self._reader = SESSION, Turns(), QuestionReader(self.domain)

    def analyst(self, name: str, share: object = None, **how: Any) -> ServedModel:
        made = copy(self)
        made._account, made._stop = Account.of(name, Fraction(0)), how.get("stop")
        return made

    @contextmanager
    def _asking(self, at_most: Part = None, statement: Statement | None = None) -> Iterator[Answering]:
        with self._turn:
            self.look()
            yield self._shown(self._free_answers, statement)

    def _pause(self, work: int = TURN_WORK) -> None:
        self._turn.pause(work)
        self.look()

    def stored(self, question: LinearQuery | Statement) -> Answer | AnswerTable:
        kind: Kind[Any] = Kinds.SQL if isinstance(question, Statement) else Kinds.ASK
        found: Answer | AnswerTable = self.do(SessionRequest(kind, question))
        return found

    def _do_budget(self, _: SessionRequest[Any]) -> Booked:
        return Booked(self.name, Fraction(0), 0, share=Fraction(0), left=Fraction(0))

    def require_keys(self, questions: Iterable[Asked]) -> None:
        """Do nothing: no question has a key."""

    def read_table(self) -> None:
        """Do nothing: there is no table."""

    def bookings(self) -> tuple[Booked, ...]:
        return ()

    def asked_texts(self) -> tuple[str, ...]:
        return ()

    def charged(self) -> Fraction:
        return Fraction(0)

    def _charged_for_values(self) -> float:
        return 0.0
