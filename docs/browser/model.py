"""What the page in the browser runs: one model, and the questions that are asked of it.

Texts go in and JSON comes out, for the page is written in another language. It runs in the reader's browser;
nothing is sent anywhere, and a model holds nothing but what was released.
"""

from __future__ import annotations

import json

from pmw.display.elements import table
from pmw.errors import PMWError
from pmw.service.question_form import described, examples_of
from pmw.session.public_model import PublicModel, model_of
from queries.errors import DomainError, QueryError
from queries.parsing import is_statement

_OPENED = list[PublicModel]()  # the one that questions are asked of


def opened(content: bytes | memoryview) -> str:
    """Return what a model is of, as JSON: ``html``, and a first ``statement``; or an ``error``.

    Args:
        content: of a model file, which may be anybody's.
    """
    try:
        model = model_of(bytes(content))
    except PMWError as error:
        return json.dumps({"error": str(error)})
    _OPENED[:] = [model]
    header = ("attribute", "cells", "values", "also")
    attributes = table(f"What can be asked of {model.domain.name}", header, described(model.domain), left=4)
    statement = examples_of(model.domain)["statement"]
    return json.dumps({"html": f"{attributes}{model._repr_html_()}", "statement": statement})


def answered(text: str) -> str:
    """Return the answer to a condition or a statement, as JSON: its ``html``, or an ``error`` in words."""
    model = _OPENED[0]
    try:
        answer = model.sql(text) if is_statement(text) else model.ask(text)
    except QueryError as error:
        return json.dumps({"error": f"{error}{_mark(error)}"})
    except (PMWError, DomainError) as error:
        return json.dumps({"error": str(error)})
    return json.dumps({"html": answer._repr_html_()})


def _mark(error: QueryError) -> str:
    """Return where the fault lies: a caret under the text."""
    if error.text is None or not isinstance(error.position, int) or "\n" in error.text:
        return ""
    return f"\n{error.text}\n{' ' * error.position}^"
