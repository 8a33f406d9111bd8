"""The application: the addresses of the service, which answer in JSON.

Handlers run in threads. The sessions' own intents and charges are the only ledger: a charge is durable before
an answer leaves. An export has a place at its session while it is made, and none while it is sent in parts,
to clients of any speed.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from pmw.display.texts import installed_by
from pmw.errors import PMWError, ReleaseError
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.export import RowPlan, program_version
from pmw.service import access, asking, forms
from pmw.service.access import CurrentUser, InQueue, asks, came, note, used
from pmw.service.connection import EXACT
from pmw.service.guard import Guard, Log, add_handlers, problem
from pmw.service.hosting import ForbiddenError, Hosted, Service
from pmw.service.limits import MOST_CALLS, MOST_QUESTIONS, PLACES
from pmw.service.served_model import ServedModel
from pmw.service.users import Role, User
from pmw.session.accounts import Activity
from pmw.session.dialogue import Analyst
from pmw.session.exact import Described, exact_text
from pmw.session.session import Session
from pmw.session.session_requests import Kind, Kinds, SessionRequest

MOST_ROWS = 1_000_000  # whose cell numbers are held in memory
_PART_BYTES = 2**18
_STALLED_SECONDS = 60  # for one part: a client that is gone is not always known to be
_MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "model": "application/octet-stream",
}
_FILE = {"schema": {"type": "string", "format": "binary"}}
_EXPORTS: forms.Responses = {200: {"content": dict.fromkeys(_MEDIA.values(), _FILE)}}
_METRICS: forms.Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_MOST_ASKED = 1000  # questions of one list
_MOST_BYTES = 2**22  # of their texts
_Value = TypeVar("_Value")
_KEY = "^[^\\x00-\\x1f\\x7f]*$"  # what a stream allows in a request_id
_THREADS = 40 + MOST_CALLS  # for what waits for no session, and for assistants
router = APIRouter(responses=forms.ERRORS)
router.include_router(access.router)
disable_created_metrics()  # type: ignore[no-untyped-call]  # times of a start say nothing here


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


_Part: TypeAlias = Annotated[float, Field(ge=0, le=1)]  # of the budget
_Questions: TypeAlias = Annotated[list[str | dict[str, Any]], Field(min_length=1, max_length=MOST_QUESTIONS)]
_Width: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)] | Annotated[str, Field(max_length=20)]


class Asked(_Body):
    """One question, as ``where``, ``sql``, ``query`` or ``aggregate``, or several, as ``queries``.

    A ``query`` is a question's canonical text. Counts may have bars of so many records at most, ``within``,
    or of a part of all records such as 1%; a statement with one AVG or SUM of so much in its own unit, or of
    a part of the answer such as 2%. What could charge more than ``at_most`` is refused, a tenth of the user's
    share unless told; at 0 the free answer is given. With ``dry_run`` the price is told: of the bar, or
    without one the most that asking could charge. With ``explain`` it is told which counts are asked, what is
    held of them, and what they may charge.
    """

    where: str | dict[str, Any] | None = None
    sql: str | None = None
    query: str | None = None
    aggregate: asking.Aggregate | None = None
    queries: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_QUESTIONS)] | None = None
    within: _Width | None = None
    at_most: _Part | None = None
    dry_run: bool = False
    explain: bool = False
    fresh: bool = False
    strict_cells: bool = False

    @model_validator(mode="after")
    def one_form(self) -> Asked:
        """Refuse none or several of the forms, and a price or a bar of several questions."""
        if sum(form is not None for form in (*self._single().values(), self.queries)) != 1:
            raise ValueError
        if self.queries is not None and (self.within is not None or self.dry_run or self.explain):
            raise ValueError
        if (self.within is not None and (self.fresh or self.explain)) or (self.dry_run and self.explain):
            raise ValueError
        return self

    @property
    def kind(self) -> Kind[Any] | None:
        """What is wanted but an answer: a bar, its price, or what asking could charge; None for an answer."""
        if self.explain:
            return Kinds.EXPLAIN
        if self.within is not None:
            return Kinds.QUOTE if self.dry_run else Kinds.ASK_WITHIN
        return Kinds.FORECAST if self.dry_run else None

    def _single(self) -> dict[str, Any]:
        one = None if self.aggregate is None else self.aggregate.model_dump()
        return {"where": self.where, "sql": self.sql, "query": self.query, "aggregate": one}

    def forms(self) -> list[dict[str, Any]]:
        """Return the questions as lines of a stream hold them."""
        if self.queries is not None:
            return self.queries
        return [{name: form for name, form in self._single().items() if form is not None}]


class Measured(_Body):
    """Attributes of a table of counts; or an attribute whose values are summed by these, ``sum``.

    With ``heads`` it is persons that are counted by these, not records. In place of attributes ``questions``
    are measured themselves, together: conditions, and statements with counts alone. Of all but a table of
    counts, ``share`` is the part of the budget that is paid. Of sums it may be ``within`` instead, how far
    the mean of a group of average size may be off, and of questions, how far each may be: a number, or a text
    such as 2%. With ``squares`` sums of squares are measured too.
    """

    scope: Annotated[list[str], Field(max_length=100)] = []
    questions: _Questions | None = None
    sum: str | None = None
    heads: bool = False
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    within: _Width | None = None
    squares: bool = False
    at_most: _Part | None = None
    dry_run: bool = False

    @model_validator(mode="after")
    def one_kind(self) -> Measured:
        """Refuse several kinds, and what goes with sums alone."""
        kinds = (self.questions is not None, self.sum is not None, self.heads)
        table = bool(self.scope) and not any(kinds[1:])
        allowed = 1 if any(kinds) else 0  # of a share and a width
        fits = sum((*kinds, table)) <= 1 and (self.share is not None) + (self.within is not None) <= allowed
        if not fits or (self.squares and self.sum is None) or (self.heads and self.within is not None):
            raise ValueError
        return self


def parts_of(session: Session | ServedModel, format: str, plan: RowPlan) -> Iterable[bytes]:
    """Return an export in parts: CSV as it is written, other formats once they are whole."""
    if format != "model" and plan.rows is None and session.state.total.value > MOST_ROWS:
        raise ReleaseError(f"the table is long; give rows, at most {MOST_ROWS:,}")
    if format == "csv":
        return session.csv_parts(plan)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"export.{format}"
        session.export(target, None if plan == RowPlan() else plan, format=format)
        return _read(target)


def _read(path: Path) -> Iterator[bytes]:
    """Yield the parts of a file; it is open from now on, and may be removed."""
    file = path.open("rb")

    def parts() -> Iterator[bytes]:
        with file:
            while part := file.read(_PART_BYTES):
                yield part

    return parts()


class SentInParts(StreamingResponse):
    """An export on its way to a client; ``ended`` is called when all was sent, or the client is gone."""

    def __init__(self, parts: Iterable[bytes], format: str, ended: Callable[[], None]) -> None:
        named = {"Content-Disposition": f'attachment; filename="export.{format}"'}
        super().__init__(parts, media_type=_MEDIA[format], headers=named)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            await asyncio.wait_for(send(message), _STALLED_SECONDS)

        try:
            with suppress(TimeoutError):  # the server closes what is not complete
                await super().__call__(scope, receive, sent)
        finally:
            self._ended()


def wants_exact(request: Request) -> bool:
    """Tell whether a client reads exact forms; see ``pmw.session.exact``."""
    return request.headers.get("accept") == EXACT


def told(request: Request, result: Any, form: Mapping[str, Any] | None = None, **more: Any) -> Response:
    """Return the response that tells a result: as JSON in its own form or another, or exactly."""
    if wants_exact(request):
        return Response(exact_text(result), media_type=EXACT)
    return JSONResponse({**(result.to_dict() if form is None else form), **more})


def _answer_told(request: Request, analyst: Analyst, result: Any, **more: Any) -> Response:
    """Return the response that tells an answer; read exactly, one is told as many are."""
    if wants_exact(request) and isinstance(result, Answer):
        return told(request, Answers.of(analyst.state, [result]))
    return told(request, result, **more)


class Metrics:
    """What was counted since the process started, as Prometheus reads it.

    No label holds a user's name, a question or an answer; requests are counted by their address' pattern.
    """

    def __init__(self) -> None:
        self._counted = CollectorRegistry()
        self._requests = Counter(
            "pmw_requests", "Requests answered.", ("method", "route", "status"), registry=self._counted
        )
        self._seconds = Histogram(
            "pmw_request_seconds", "Seconds for a request.", ("route",), registry=self._counted
        )
        self._refusals = Counter("pmw_refusals", "Requests refused.", ("code",), registry=self._counted)

    def count(self, line: Mapping[str, Any]) -> None:
        """Count a request by its line of the log."""
        route = line["route"] or "none"
        self._requests.labels(line["method"], route, str(line["status"] or "none")).inc()
        self._seconds.labels(route).observe(line["milliseconds"] / 1000)
        if line["code"] is not None:
            self._refusals.labels(line["code"]).inc()

    def text(self, sessions: Iterable[Hosted]) -> bytes:
        """Return the metrics, with those of some sessions, as a page for Prometheus."""
        now = CollectorRegistry()
        waiting = Gauge("pmw_waiting", "Requests that wait for a session.", ("session",), registry=now)
        spent = Gauge("pmw_budget_spent_ratio", "Spent part of a budget.", ("session",), registry=now)
        for hosted in sessions:
            waiting.labels(hosted.name).set(hosted.queue.waiting)
            spent.labels(hosted.name).set(hosted.session.state.ledger.share)
        return generate_latest(self._counted) + generate_latest(now)


def create_app(service: Service, log: Log | None = None, ready: Callable[[], None] = lambda: None) -> FastAPI:
    """Return the application over a service's sessions and users, whose log is standard error unless told."""
    log = log or Log()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threads, tasks = anyio.to_thread.current_default_thread_limiter(), set[asyncio.Task[None]]()

        async def look(take_up: Callable[[], None]) -> None:
            try:
                await run_in_threadpool(take_up)
            except PMWError as error:
                log.failure(error)
            threads.total_tokens = _THREADS + PLACES * len(service)  # a crowded session leaves some to others

        await look(lambda: None)
        if threading.current_thread() is threading.main_thread():  # no other one gets signals
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, lambda: tasks.add(loop.create_task(look(service.take_up))))
        ready()
        yield

    app = FastAPI(
        title="online-pmw",
        summary="Private answers over sensitive tables.",
        version=program_version(),
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service, app.state.signed_in, app.state.log = service, access.SignedIn(), log
    app.state.metrics = Metrics()
    app.get("/health")(health)
    app.get("/ready", responses=forms.UNREADY)(ready_now)
    add_handlers(app, log)
    app.include_router(router)
    if find_spec("pmw.service.pages") is not None:
        app.include_router(importlib.import_module("pmw.service.pages").router)
    if find_spec("mcp") is not None:
        app.state.assistants = importlib.import_module("pmw.service.assistant_server").Servers(service, log)
    app.add_middleware(Guard, log=log, is_known=access.is_known, count=app.state.metrics.count)
    return app


async def health() -> dict[str, str]:
    """Tell that the service runs. It waits for no thread."""
    return {"status": "ok"}


def ready_now(request: Request) -> Any:
    """Tell whether requests can be answered now: users and sessions can be read, and files written."""
    code = access.service_of(request).unready()
    if code is not None:
        return problem(request, 503, "the service cannot answer now; the custodian is needed", code=code)
    return {"status": "ready"}


@router.get("/metrics", response_class=Response, responses=_METRICS)
def metrics(request: Request, user: CurrentUser) -> Response:
    """Give a custodian what Prometheus reads: requests, refusals, who waits, and spent parts of budgets.

    It tells no user's name and no question, and of sessions those that the custodian may use.
    """
    if user.role is not Role.CUSTODIAN:
        raise ForbiddenError("the metrics are for custodians")
    counted: Metrics = request.app.state.metrics
    return Response(
        counted.text(access.service_of(request).visible(user)), media_type=CONTENT_TYPE_PLAIN_0_0_4
    )


@router.get("/sessions", response_model=forms.Sessions)
def sessions(request: Request, user: CurrentUser) -> dict[str, Any]:
    """List the user's sessions, with what is left of the user's share."""
    listed = [_summary(one, user) for one in access.service_of(request).visible(user)]
    ceiling = None if user.at_most is None else float(user.at_most)
    return {"user": user.name, "role": user.role.value, "at_most": ceiling, "sessions": listed}


def _summary(hosted: Hosted, user: User) -> dict[str, Any]:
    state = hosted.session.state
    return {
        "name": hosted.name,
        "table": state.domain.name,
        "attributes": list(state.domain.names),
        "budget_share": state.ledger.share,
        "share": float(min(hosted.asking(user).most, state.ledger.remaining / state.ledger.cap)),
    }


@router.get("/sessions/{name}", response_model=forms.Status, dependencies=[InQueue])
def status(request: Request, user: CurrentUser, name: str) -> Response:
    """Tell where a session stands, and what was charged for the user."""
    with used(request, user, name) as hosted:
        booked = hosted.asking(user).budget()
        yours = {name: own for name, own in booked.to_dict().items() if name not in ("name", "exact")}
        return told(request, hosted.session.status(), you=yours)


@router.get("/sessions/{name}/you", response_model=forms.You, dependencies=[InQueue])
def you(request: Request, user: CurrentUser, name: str) -> Response:
    """Tell what was charged for the user, the user's share, and what is left of it and of the budget."""
    with used(request, user, name) as hosted:
        return told(request, hosted.asking(user).budget())


@router.get("/sessions/{name}/schema", response_model=forms.Described)
def schema(request: Request, user: CurrentUser, name: str) -> Response:
    """Tell a session's attributes, their values and cells, parts of dates, and which counts are held."""
    with used(request, user, name) as hosted:
        return told(request, Described.of(hosted.session.state))


@router.get("/sessions/{name}/asked", response_model=forms.Queries, dependencies=[InQueue])
def asked_before(
    request: Request, user: CurrentUser, name: str, after: Annotated[int, Query(ge=0)] = 0
) -> Response:
    """List the distinct questions that the user was answered, or a custodian all, the oldest first.

    Some are told at a time, as canonical texts: `after` is how many were told before.
    """
    with used(request, user, name) as hosted:
        texts = _few(_seen_by(user, hosted).asked_texts()[after : after + _MOST_ASKED], len)
    return told(request, texts, {"queries": texts})


def _seen_by(user: User, hosted: Hosted) -> Session | Analyst:
    """Return the session as a user sees it: a custodian all of it, anybody else what is the user's own."""
    return hosted.session if user.role is Role.CUSTODIAN else hosted.asking(user)


def _few(values: Sequence[_Value], size: Callable[[_Value], int]) -> Sequence[_Value]:
    """Return the first values, as many as take so many bytes together; one at least."""
    sizes = accumulate(map(size, values))
    return values[: max(1, sum(one <= _MOST_BYTES for one in sizes))]


@router.post("/sessions/{name}/ask", response_model=forms.Asked, responses=forms.LATE, dependencies=[InQueue])
def ask(
    request: Request,
    user: CurrentUser,
    name: str,
    asked: Asked,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200, pattern=_KEY)] = None,
) -> Response:
    """Answer a question, or several in order.

    Each answer is the object that `pmw ask --json` prints. Among several, a refused question has an error
    object in its place. With an Idempotency-Key a request is safe to repeat: it gets the same answers.
    With `within`, what a bar of so many records costs is charged to the user, once under a key; with
    `dry_run`, it is told. With `dry_run` alone, the most that asking could charge is told, and with
    `explain`, why: nothing is charged, and a key is of no use.
    """
    with used(request, user, name) as hosted:
        forms, aligned = asked.forms(), asked.strict_cells
        request.state.questions = len(forms)
        asks(request, *(("ask" if asked.kind is None else asked.kind.name, form, None) for form in forms))
        analyst = hosted.asking(user, request)
        kind = asked.kind
        if kind is not None:
            query = asking.read_one(analyst, forms[0], aligned=aligned).query
            asks(request, (kind.name, forms[0], query))
            how: dict[str, Any] = {"request_id": idempotency_key, "at_most": asked.at_most}
            wanted = SessionRequest(kind, query, within=asked.within, **how)
            found = asking.done(analyst, hosted.large, wanted)
            if kind is Kinds.ASK_WITHIN:
                note(request, lambda history: history.add(name, user.name, asking.texts_of(forms)))
            more = {"needed": found.needed} if kind is Kinds.QUOTE else {}
            return _answer_told(request, analyst, found, **more)
        questions = asking.read(analyst, forms, idempotency_key, aligned=aligned)
        kinds = zip(forms, questions.kinds(), strict=True)
        asks(request, *((kind, form, read) for form, (kind, read) in kinds))
        with hosted.large.place(questions.cells):
            how = {"fresh": asked.fresh, "at_most": asked.at_most}
            if asked.queries is None:
                reply = _answer_told(request, analyst, asking.answered(analyst, questions, **how))
            else:
                results = asking.answered_all(analyst, questions, **how)
                came(request, *results)
                # Made here: the event loop waits for nothing long.
                reply = (
                    told(request, asking.together(analyst, results))
                    if wants_exact(request)
                    else JSONResponse({"answers": asking.forms_of(questions, results)})
                )
        read = [forms[place] for place in questions.questions]
        note(request, lambda history: history.add(name, user.name, asking.texts_of(read)))
        return reply


@router.post(
    "/sessions/{name}/measure", response_model=forms.Quote, responses=forms.LATE, dependencies=[InQueue]
)
def measure(
    request: Request,
    user: CurrentUser,
    name: str,
    measured: Measured,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200, pattern=_KEY)] = None,
) -> Response:
    """Measure counts, questions, or sums of values, charged to the user; with `dry_run`, tell the price.

    With an Idempotency-Key a request is safe to repeat: it measures and charges once, and gets the same price
    and bar again. Without one, a request that is repeated measures again, at the same price.
    """
    with used(request, user, name) as hosted:
        analyst, scope, share = hosted.asking(user), measured.scope, measured.share
        how: dict[str, Any] = {"dry_run": measured.dry_run, "at_most": measured.at_most}
        how["request_id"] = idempotency_key
        kind = Kinds.QUOTE if measured.dry_run else Kinds.MEASURE
        asks(request, (kind.name, measured.model_dump(), None))
        if measured.heads:
            return told(request, analyst.measure_heads(scope, share=share, **how))
        if measured.questions is not None:
            how |= {"share": share, "within": measured.within}
            return told(request, asking.measured_rows(analyst, hosted.large, measured.questions, **how))
        if measured.sum is None:
            return told(request, analyst.measure(scope, **how))
        how |= {"share": share, "within": measured.within, "squares": measured.squares}
        return told(request, analyst.measure_sum(measured.sum, scope, **how))


def row_plan(
    rows: Annotated[int | None, Query(ge=1, le=MOST_ROWS)] = None,
    seed: int | None = None,
    independent: bool = False,
    where: str | None = None,
) -> RowPlan:
    """Return how the rows of an export are drawn."""
    return RowPlan(rows, independent, seed, where)


@router.get("/sessions/{name}/export", response_class=Response, responses=_EXPORTS, dependencies=[InQueue])
def export(
    request: Request,
    user: CurrentUser,
    name: str,
    plan: Annotated[RowPlan, Depends(row_plan)],
    format: Literal["csv", "parquet", "model"] = "csv",
) -> Response:
    """Give a synthetic table, or a model to ask offline; free. Each user has one at a time."""
    exports = access.service_of(request).exports
    exports.begin(user.name)
    try:
        with used(request, user, name) as hosted:
            parts = parts_of(hosted.session, format, plan)
    except BaseException:
        exports.end(user.name)
        raise
    return SentInParts(parts, format, lambda: exports.end(user.name))


@router.get("/sessions/{name}/ledger", response_model=forms.Ledger, dependencies=[InQueue])
def ledger(request: Request, user: CurrentUser, name: str) -> Response:
    """List every charge to a session, and the user's own sum, or to a custodian that of each analyst.

    Of charges for others the user sees the prices, and neither names nor what was asked.
    """
    with used(request, user, name) as hosted:
        seen = _seen_by(user, hosted)
        booked = (seen.budget(),) if isinstance(seen, Analyst) else seen.bookings()
        charged = seen.ledger()
    return told(request, charged, analysts=[one.to_dict() for one in booked])


@router.get("/sessions/{name}/history", response_model=forms.History, dependencies=[InQueue])
def history(
    request: Request, user: CurrentUser, name: str, most: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Response:
    """List answered questions of a session, the newest first: the user's own, or a custodian everybody's."""
    with used(request, user, name) as hosted:
        found = _history(hosted, user, most)
    return told(request, found, {"history": [_activity_form(one, name) for one in found]})


def _history(hosted: Hosted, user: User, most: int) -> Sequence[Activity]:
    return _few(_seen_by(user, hosted).history(most), lambda one: len(one.query))


@router.get("/activity", response_model=forms.Activities)
async def activity(
    request: Request,
    user: CurrentUser,
    session: str | None = None,
    most: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """List answered questions, the newest first: the user's own, or everybody's to a custodian."""
    service = access.service_of(request)
    chosen = service.visible(user) if session is None else [service.hosted(user, session)]
    listed = []
    for hosted in chosen:
        async with hosted.queue.place(user.name):  # whoever waits takes no thread
            found = await run_in_threadpool(_used_history, request, hosted, user, most)
        listed += [_activity_form(one, hosted.name) for one in found]
    return {"activity": listed}


def _used_history(request: Request, hosted: Hosted, user: User, most: int) -> Sequence[Activity]:
    with used(request, user, hosted.name):
        return _history(hosted, user, most)


def _activity_form(one: Activity, session: str) -> dict[str, Any]:
    return {"session": session, **asdict(one), "query": json.loads(one.query)}


@router.api_route("/sessions/{name}/mcp", methods=["GET", "POST", "DELETE"], include_in_schema=False)
async def assistants(request: Request, user: CurrentUser, name: str) -> Any:
    """Answer an assistant by the Model Context Protocol; see ``pmw.service.assistant_server``."""
    if not hasattr(request.app.state, "assistants"):
        return problem(request, 404, f"assistants need the package mcp: {installed_by('mcp')}")
    return await request.app.state.assistants.answer(request, user, name)
