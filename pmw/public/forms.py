"""Forms: the one JSON object of an answer, whoever prints or sends it."""

from __future__ import annotations

from typing import Any

from pmw.public.answers import Answers
from pmw.public.tables import AnswerTable


def form_of(result: Answers | AnswerTable) -> dict[str, Any]:
    """Return an answer ready for JSON: one answer's, or that of all groups."""
    alone = result.alone() if isinstance(result, Answers) else None
    return result.to_dict() if alone is None else alone.to_dict()
