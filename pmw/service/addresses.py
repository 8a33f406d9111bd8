"""Addresses of the page, and the same question in Python, in SQL and with curl; never with a token."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from pmw.service.hosting import url_of
from pmw.service.shown_answers import is_statement
from queries.cells import in_quotes
from queries.domain import Domain

TOKEN = "PMW_TOKEN"  # noqa: S105  # the variable of an environment, which holds the user's


def path_of(name: str) -> str:
    """Return the path of a session's page; whatever its file is called, it is one part of it."""
    return f"/page/{quote(name, safe='')}"


def exports_of(name: str) -> str:
    """Return the path of what a session exports."""
    return f"/sessions/{quote(name, safe='')}/export"


def address_of(path: str, fields: Mapping[str, str]) -> str:
    """Return a path with fields, of which empty ones are left out, but for the question."""
    filled = {name: value for name, value in fields.items() if value or name == "q"}
    return f"{path}?{urlencode(filled)}" if filled else path


def elsewhere(base: str, name: str, text: str, domain: Domain) -> list[tuple[str, str]]:
    """Return the same question as it is asked elsewhere, as pairs of where and what."""
    url = url_of(base, name)
    kind, method = ("sql", "sql") if is_statement(text) else ("where", "ask")
    question = json.loads(text) if text.lstrip().startswith("{") else text
    python = (
        "import os\n\nimport pmw\n\n"
        f'session = pmw.connect({url!r}, token=os.environ["{TOKEN}"])\n'
        f"print(session.{method}({question!r}))"
    )
    curl = (
        f"curl -H \"Authorization: Bearer ${TOKEN}\" -H 'Content-Type: application/json' "
        f"-d {shlex.quote(json.dumps({kind: question}))} {shlex.quote(url + '/ask')}"
    )
    told = [("Python", python), ("curl", curl)]
    if isinstance(question, str):
        where = f" WHERE {text}" if text.strip() else ""
        sql = text if kind == "sql" else f"SELECT COUNT(*) FROM {in_quotes(domain.name)}{where}"  # noqa: S608
        told.insert(1, ("SQL", sql))
    return told
