"""The client: a session of a service, asked like one of this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

import numpy as np

from pmw.disk import require_file, write_whole
from pmw.display.elements import table
from pmw.errors import ServiceError
from pmw.public.answers import COLUMNS, Answers, concatenated
from pmw.public.codec import MOST_CELLS
from pmw.public.codec import read as read_form
from pmw.public.contract import Contract, guarantee
from pmw.public.export import ExportFormat, RowPlan
from pmw.public.ledger import Ledger
from pmw.public.population import PopulationInterval
from pmw.public.quotes import Quote, Within
from pmw.public.status import Status
from pmw.public.tables import AnswerTable
from pmw.service.connection import EXACT, UNREADABLE, Connection
from pmw.session.accounts import Activity, Booked
from pmw.session.asking import Asking, Questions, Where, aggregate_statement
from pmw.session.exact import Described, Foreseen, read_exact
from pmw.session.explaining import Explanation
from pmw.session.public_model import PublicModel, model_of
from pmw.session.requests import Answering, Asked, Deliver, Part, Request, Requests
from pmw.session.session_requests import Kind, Kinds, Result, SessionRequest, ceiling_form
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.memory import Memory
from queries.parsing import is_statement, parse_where, require_key
from queries.statements import Statement

if TYPE_CHECKING:
    import pandas as pd

_BATCH = 500  # questions of one request; the service takes 1,000
_MOST_LISTED = 1000  # questions of a history
_MOST_CONDITIONS = 2**12  # as they were asked, that are remembered
_MOST_BYTES = 2**19  # of their texts; it takes twice that
_MOST_WEIGHTS = 2**22  # cells that they weigh; it takes four times that
_MODEL_MAY = "model() gives the model, which may"
_Found = TypeVar("_Found")


def connect(url: str, *, token: str, session: str | None = None) -> RemoteSession:
    """Return a session of a service. One request is made, which finds out whether the token is good.

    Args:
        url: of the service, such as ``https://counts.example.org``, or of a session in it, such as
            ``https://counts.example.org/sessions/study``.
        token: as ``pmw user add`` printed it; it is sent in a header, never in an address.
        session: its name; needed where the URL names none and the user has several.

    Raises:
        ServiceError: the URL is none, the service does not answer or refuses the token, the session is not
            told or none of the user's, or the service is of another version.
    """
    connection = Connection(url, token=token, session=session)
    try:
        return RemoteSession(connection)
    except BaseException:
        connection.close()
        raise


class RemoteSession(Asking):
    """A session of a service, as one user asks it. Made by ``connect``; threads may share it and take turns.

    It has the methods of a session, and gives the same results: the token says whose share pays. A question
    that got no response is asked again: the service charges nothing for a question that has a stored answer.
    What is to be measured is asked for again under its key, a fresh one unless told, so it is measured and
    charged once. Whatever is asked raises ``ServiceError`` where the service refuses it, or does not answer.

    Rows have the types of a CSV file. Over HTTP no model is refined, and no measurements are exported, nor
    manifests beside tables: ``model`` gives the model, which does so here.

    Args:
        connection: to it.

    Raises:
        ServiceError: the service does not answer, refuses the token, or is of another version.
    """

    answers_whole_statements = True
    _role, _who_may = "a user of a service", "the custodian may, by the pmw command, where the file lies"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._conditions: Memory[str | Mapping[str, Any]] = Memory(_MOST_CONDITIONS, _MOST_BYTES)
        self._described: Described = self._exact(Described, "/schema")

    @property
    def name(self) -> str:
        """The session's name in addresses."""
        return self._connection.name

    @property
    def contract(self) -> Contract:
        """What was fixed at opening; a seed is told as 0."""
        return self._described.contract

    def schema(self) -> dict[str, Any]:
        return self._described.to_dict()

    # --- questions ------------------------------------------------------------------------------------------

    @contextmanager
    def _asking(self, at_most: Part = None, statement: Statement | None = None) -> Iterator[Answering]:
        yield partial(self._answer, ceiling_form(at_most))

    def _answer(self, ceiling: Mapping[str, float], requests: Requests, deliver: Deliver | None) -> Answers:
        parts = list[Answers]()
        for start, stop in self._batches(requests):
            parts.append(self._batch(requests.between(start, stop), ceiling))
            if deliver is not None:
                deliver(parts[-1])
        return concatenated(parts or [_none(self._described)], requests.questions)

    def _batches(self, requests: Requests) -> Iterator[tuple[int, int]]:
        """Yield where batches begin and end that the service takes; with a key each is one question."""
        start, size, weighs = 0, 0, 0
        for place, text in enumerate(requests.texts()):
            weight = sum(self.domain.scope_size(one.scope) for one in requests.questions.query(place).factors)
            apart = bool(requests.request_ids) or requests.fresh[place] != requests.fresh[start]
            full = (
                place - start == _BATCH or size + len(text) > _MOST_BYTES or weighs + weight > _MOST_WEIGHTS
            )
            if place > start and (apart or full):
                yield start, place
                start, size, weighs = place, 0, 0
            size, weighs = size + len(text), weighs + weight
        if start < len(requests):
            yield start, len(requests)

    def _request(self, question: Asked, **how: Any) -> Request:
        request = super()._request(question, **how)
        if isinstance(question, str | Mapping):  # sent as it was asked: the user's history shows it
            self._conditions.keep(request.text, question, len(request.text) + len(str(question)))
        return request

    def _form(self, text: str) -> dict[str, Any]:
        condition = self._conditions.get(text)
        if condition is None:
            return {"query": text}
        return {"where": condition if isinstance(condition, str) else dict(condition)}

    def _batch(self, requests: Requests, ceiling: Mapping[str, float]) -> Answers:
        questions = list(map(self._form, requests.texts()))
        body = {"queries": questions, "fresh": bool(requests.fresh[0]), **ceiling}
        key = requests.request_ids[0] if requests.request_ids else None
        found = self._ask(Answers, body, key)
        if len(found) != len(requests):
            raise ServiceError("the service gave another number of answers than were asked for")
        return found

    def _tabulate(
        self, kind: str, name: str, where: Where, by: Sequence[str], *, part: float = 0.5, **options: Any
    ) -> AnswerTable:
        query = parse_where(where, self.domain)
        aggregate_statement(kind, name, query, by, part)  # what is no question is refused as a session does
        given = where if isinstance(where, str) else dict(where)
        form = {"kind": kind, "name": name, "where": given, "by": list(by), "part": part}
        ceiling = ceiling_form(options.pop("at_most", None))
        return self._ask(AnswerTable, {"aggregate": form, **options, **ceiling})

    def population_intervals(self, questions: Questions) -> tuple[PopulationInterval | None, ...]:
        return self.model().population_intervals(questions)

    # --- requests -------------------------------------------------------------------------------------------

    def do(self, request: SessionRequest[Result]) -> Result:
        found: Any = ()
        if request.kind is Kinds.ASK:
            found = self._do_ask(request)
        elif request.kind in _STANDING:
            found = self._exact(*_STANDING[request.kind])
        elif request.kind is not Kinds.HISTORY:
            found = self._posted(request)
        elif (shown := min(request.most, _MOST_LISTED)) > 0:
            found = self._exact(tuple[Activity, ...], f"/history?most={shown}")
        result: Result = found
        return result

    def _posted(self, request: SessionRequest[Any]) -> Any:
        kind, key = request.kind, request.request_id
        if kind is Kinds.ASK_WITHIN:
            read = self._request(request.question, request_id=key)
            request = replace(request, question=read, request_id=read.request_id)
        body, address = self._body(request), "/measure" if kind is Kinds.MEASURE else "/ask"
        if kind in (Kinds.ASK_WITHIN, Kinds.SQL_WITHIN, Kinds.MEASURE):
            key = uuid4().hex if request.request_id is None else request.request_id
            require_key(key)
            key = None if request.dry_run else key
        again = key is not None or not request.fresh
        found = self._exact(_RESULTS[kind], address, body, key=key, again=again)
        return found[0] if kind is Kinds.ASK_WITHIN else found

    def _body(self, request: SessionRequest[Any]) -> dict[str, Any]:
        kind = request.kind
        if request.what is not None:
            body = request.what.form()
        elif kind in (Kinds.SQL, Kinds.SQL_WITHIN):
            body = {"sql": _text_of(request.question)}
        else:
            body = self._stated(request.question)
        if kind in (Kinds.QUOTE, Kinds.ASK_WITHIN, Kinds.SQL_WITHIN):
            body["within"] = Within.of(request.within).form
        chosen = {
            "fresh": request.fresh,
            "explain": kind is Kinds.EXPLAIN,
            "dry_run": request.dry_run or kind in (Kinds.QUOTE, Kinds.FORECAST),
        }
        return {**body, **{name: True for name, on in chosen.items() if on}, **ceiling_form(request.at_most)}

    def asked(self) -> tuple[LinearQuery, ...]:
        """Return the distinct questions that the user was answered, or to custodians all; free."""
        texts = list[str]()
        while found := self._exact(tuple[str, ...], f"/asked?after={len(texts)}"):
            texts += found
        try:
            read = [read_form(LinearQuery, one, domain=self.domain, most_cells=MOST_CELLS) for one in texts]
        except UNREADABLE:
            raise ServiceError(_OTHER) from None
        return tuple(read)

    # --- what may be published ------------------------------------------------------------------------------

    def model(self) -> PublicModel:
        return model_of(self._export(RowPlan(), "model"))

    def _drawn(self, plan: RowPlan, *, refine: bool) -> pd.DataFrame:
        import pandas as pd

        if refine:
            self._refuse("refine the model", _MODEL_MAY)
        content = self._export(plan, "csv")
        try:
            return pd.read_csv(BytesIO(content))
        except ValueError:
            raise ServiceError(_OTHER) from None

    def _written(
        self, target: Path, form: ExportFormat, plan: RowPlan | None, *, force: bool, refine: bool
    ) -> dict[str, Any]:
        if refine or form is ExportFormat.MEASUREMENTS:
            self._refuse("export measurements or a refined model", _MODEL_MAY)
        require_file(target, force=force)
        content = self._export(plan or RowPlan(), form.value)
        write_whole(target, lambda place: place.write_bytes(content))
        return {"format": form.value, "bytes": len(content)}

    def _export(self, plan: RowPlan, format: str) -> bytes:
        if plan.dialect != RowPlan().dialect:
            self._refuse("write CSV in another dialect", _MODEL_MAY)
        drawn = {"rows": plan.rows, "seed": plan.seed, "where": plan.where}
        drawn["independent"] = "true" if plan.independent else None
        told = {name: value for name, value in drawn.items() if value is not None}
        return self._connection.sent("GET", f"/export?{urlencode({'format': format, **told})}").content

    def close(self) -> None:
        """Let go of the connection; the next question makes another."""
        self._connection.close()

    def __repr__(self) -> str:
        return f"RemoteSession({self.name!r} at {self._connection.place})"

    def _repr_html_(self) -> str:
        contract = self.contract
        rows = [
            ("table", contract.domain.name),
            ("attributes", ", ".join(contract.domain.names)),
            ("guarantee", guarantee(contract)),
        ]
        return str(table(f"Session {self.name} at {self._connection.place}", (), rows))

    def _ask(self, kind: type[_Found], body: Mapping[str, Any], key: str | None = None) -> _Found:
        return self._exact(kind, "/ask", body, key=key, again=key is not None or not body.get("fresh"))

    def _exact(
        self, kind: type[_Found], address: str, body: Mapping[str, Any] | None = None, **how: Any
    ) -> _Found:
        """Return a result to the last digit."""
        try:
            found = self._connection.sent(
                "GET" if body is None else "POST", address, body, accept=EXACT, **how
            )
        except ServiceError as error:
            if error.status == 404:
                raise ServiceError(_OTHER, status=404) from None
            raise
        if found.kind != EXACT:
            raise ServiceError(_OTHER)
        try:
            result: _Found = read_exact(kind, found.content.decode())
        except UNREADABLE:
            raise ServiceError(_OTHER) from None
        return result

    def _stated(self, question: Asked | Statement) -> dict[str, Any]:
        if isinstance(question, Statement):
            return {"sql": _text_of(question)}
        if is_statement(question):
            return {"sql": question}
        return self._form(self._request(question).text)


_STANDING: dict[Kind[Any], tuple[Any, str]] = {  # what is returned, and its address
    Kinds.STATUS: (Status, ""),
    Kinds.BUDGET: (Booked, "/you"),
    Kinds.LEDGER: (Ledger, "/ledger"),
}
_RESULTS: dict[Kind[Any], Any] = {
    Kinds.SQL: AnswerTable,
    Kinds.SQL_WITHIN: AnswerTable,
    Kinds.ASK_WITHIN: Answers,
    Kinds.QUOTE: Quote,
    Kinds.FORECAST: Foreseen,
    Kinds.EXPLAIN: Explanation,
    Kinds.MEASURE: Quote,
}
_OTHER = (
    "the service is of another version of online-pmw than this client, which cannot read its answers; "
    "update the older one, or ask with pmw ask"
)


def _text_of(statement: str | Statement) -> str:
    text = statement if isinstance(statement, str) else statement.text
    if not text:
        raise QueryError(
            "a statement that was made without a text cannot be sent; use sql(), mean() or group_by()",
            code="bad_request",
        )
    return text


def _none(described: Described) -> Answers:
    contract: Contract = described.contract
    empty = {name: np.zeros((0, 2) if name in ("interval", "typical") else 0) for name in COLUMNS}
    codes = {name: empty[name].astype(np.uint8) for name in ("source", "kind")}
    others = {"version": empty["version"].astype(np.int64), "aligned": empty["aligned"].astype(np.bool_)}
    return Answers.of_contract(contract, max(1.0, described.total), {**empty, **codes, **others})
