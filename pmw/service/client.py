"""The client: a session of a service, asked like one of this process. It needs the standard library alone."""

from __future__ import annotations

import http.client
import json
import math
import ssl
import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from pmw.errors import BudgetExhaustedError, ReleaseError, ServiceError
from pmw.public.answer import Answer, Source, Spent
from pmw.public.contract import RecordsKept
from queries.errors import QueryError

if TYPE_CHECKING:
    import pandas as pd

_SECONDS = 60.0  # for one response
_BATCH = 500  # questions of one request; the service takes 1,000
_TRIES = 10
_LONGEST_PAUSE = 5.0  # seconds, where the service names none
_LONGEST_TOLD = 30.0  # seconds that a service may have a client wait
_HERE = ("localhost", "127.0.0.1", "::1")


def connect(url: str, *, token: str, session: str | None = None) -> RemoteSession:
    """Return a session of a service.

    Args:
        url: of the service, such as ``https://counts.example.org``, or of a session in it, such as
            ``https://counts.example.org/sessions/study``.
        token: as ``pmw user add`` printed it; it is sent in a header, never in an address.
        session: its name; needed where the URL names none and the user has several.

    Raises:
        ServiceError: the URL is none, the service does not answer or refuses the token, or the session is
            not told.
    """
    return RemoteSession(url, token=token, session=session)


class RemoteSession:
    """A session of a service, as one user asks it. Made by ``connect``; threads may share it and take turns.

    Answers are those that the service gives: the token says whose share pays. A question that got no response
    is asked again: the service charges nothing for a question that has a stored answer.
    """

    def __init__(self, url: str, *, token: str, session: str | None = None) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or port == -1:
            raise ServiceError(
                "expected the URL of a service, such as http://127.0.0.1:8000, got another text"
            )
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ServiceError("expected a token as pmw user add printed it, got another text")
        if parts.scheme == "http" and parts.hostname not in _HERE:
            warnings.warn("the token crosses the network unencrypted; use https://", stacklevel=3)
        self._lock = threading.Lock()
        self._connection = _connection(parts.scheme, parts.hostname, port)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._base, self.name = _base_and_name(parts.path)
        try:
            self.name = session or self.name or self._only_session()
        except BaseException:
            self.close()
            raise

    def ask(
        self, question: str | Mapping[str, Any], *, fresh: bool = False, request_id: str | None = None
    ) -> Answer:
        """Answer one question.

        Args:
            question: a where-text or a structured condition.
            fresh: ask a newer model, or for a test that was not made, where there is a stored answer.
            request_id: idempotency key, for safe retries; the same key gets the same answer.

        Raises:
            QueryError: the question is refused, or the key was used for another; nothing is spent.
            ServiceError: the service refuses the request, or does not answer.
        """
        return answer_of(self.send({**_where(question), "fresh": fresh}, request_id))

    def quote(self, question: str | Mapping[str, Any], within: float) -> dict[str, Any]:
        """Return what a bar of so many records costs a question; free.

        Returns scope, cells, share, half_width, affordable and needed.

        Raises:
            QueryError: no measurement gives the question such a bar.
            ServiceError: the service refuses the request, or does not answer.
        """
        return self.send({**_where(question), "within": within, "dry_run": True})

    def ask_within(self, question: str | Mapping[str, Any], within: float) -> Answer:
        """Answer one question within a bar of so many records, and pay its price where there is one.

        Repeated, it costs nothing more: the bar is there already.

        Raises:
            BudgetExhaustedError: the price is not left; nothing is spent.
            QueryError: no measurement gives the question such a bar.
            ServiceError: the service refuses the request, or does not answer.
        """
        return answer_of(self.send({**_where(question), "within": within}))

    def ask_all(
        self, questions: Iterable[str | Mapping[str, Any]], *, fresh: bool = False
    ) -> tuple[Answer, ...]:
        """Answer questions in order.

        Raises:
            QueryError: a question is refused; others may have been answered.
            ServiceError: the service refuses a request, or does not answer.
        """
        forms = list(map(_where, questions))
        found: list[Answer] = []
        for start in range(0, len(forms), _BATCH):
            sent = self.send({"queries": forms[start : start + _BATCH], "fresh": fresh})
            found += map(answer_of, sent["answers"])
        return tuple(found)

    def sql(self, statement: str, *, fresh: bool = False) -> dict[str, Any]:
        """Answer an SQL statement with the object that ``pmw ask --sql --json`` prints.

        Raises:
            QueryError: the statement is refused; nothing is spent.
            ServiceError: the service refuses the request, or does not answer.
        """
        return self.send({"sql": statement, "fresh": fresh})

    def send(self, body: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Return what the service answers to the body of an ask, as JSON.

        Args:
            body: ``where``, ``sql`` or ``queries``, and options.
            key: idempotency key.

        Raises:
            BudgetExhaustedError: what a bar costs is not left; nothing is spent.
            QueryError: the question is refused, or the key was used for another; nothing is spent.
            ServiceError: the service refuses the request, or does not answer.
        """
        again = key is not None or not body.get("fresh")
        headers = {} if key is None else {"Idempotency-Key": key}
        return self._json("POST", "/ask", body, headers, again=again)

    def measure(
        self, names: str | Sequence[str], *, dry_run: bool = False, request_id: str | None = None
    ) -> dict[str, Any]:
        """Measure a table of counts now, or tell its price.

        Where the response is lost, the request is made again under its key, which measures and charges once.

        Args:
            names: one attribute, or several.
            dry_run: tell the price alone; free.
            request_id: idempotency key, for retries of your own; a fresh one for each call unless told.

        Returns scope, cells, share, half_width and affordable.

        Raises:
            BudgetExhaustedError: the price is not left; nothing is spent.
            QueryError: there is no such table, or the key was used for something else; nothing is spent.
            ServiceError: the service refuses the request, or does not answer.
        """
        scope = [names] if isinstance(names, str) else list(names)
        return self._measured({"scope": scope, "dry_run": dry_run}, request_id)

    def _measured(self, body: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        """Return what the service answers to the body of a measure, which has a key where it may charge."""
        key = uuid4().hex if key is None else key
        headers = {} if body["dry_run"] else {"Idempotency-Key": key}
        return self._json("POST", "/measure", body, headers)

    def measure_heads(
        self,
        by: str | Sequence[str] = (),
        *,
        share: float | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> dict[str, Any]:
        """Measure numbers of persons now, or tell their price; see ``Session.measure_heads``.

        Args:
            by: one attribute, or several; none for one number of all persons.
            share: the part of the budget that is paid; 2 % unless told.
            dry_run: tell the price alone; free.
            request_id: idempotency key; see ``measure``.

        Raises:
            ServiceError: as ``measure`` raises it.
        """
        scope = [by] if isinstance(by, str) else list(by)
        given = {"scope": scope, "heads": True, "share": share, "dry_run": dry_run}
        return self._measured(given, request_id)

    def measure_sum(  # noqa: PLR0913 - each is a choice of its own
        self,
        name: str,
        by: str | Sequence[str] = (),
        *,
        share: float | None = None,
        within: float | str | None = None,
        squares: bool = False,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> dict[str, Any]:
        """Measure sums of an attribute's values now, or tell their price; see ``Session.measure_sum``.

        A ``request_id`` is what ``measure`` takes.

        Returns sum, scope, cells, counted, squared, share, half_width, mean_half_width and affordable.

        Raises:
            BudgetExhaustedError: the price is not left; nothing is spent.
            QueryError: there are no such sums; nothing is spent.
            ServiceError: as ``measure`` raises it.
        """
        given = {"sum": name, "scope": [by] if isinstance(by, str) else list(by), "dry_run": dry_run}
        given |= {} if share is None else {"share": share}
        given |= {} if within is None else {"within": within}
        given |= {"squares": True} if squares else {}
        return self._measured(given, request_id)

    def status(self) -> dict[str, Any]:
        """Return where the session stands, and the user's share of it."""
        return self._json("GET", "")

    def ledger(self) -> dict[str, Any]:
        """Return every charge so far, and each analyst's sum."""
        return self._json("GET", "/ledger")

    def synthetic_records(self, rows: int | None = None, *, seed: int | None = None) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; free. Its columns have the types of a CSV file.

        Args:
            rows: number of rows; None for the session's total.
            seed: repeats a drawing; None draws again.
        """
        import pandas as pd

        return pd.read_csv(BytesIO(self._export("csv", rows, seed)))

    def export(self, path: str | Path, *, format: str = "csv", rows: int | None = None) -> None:
        """Write a synthetic table (csv, parquet), or a model to ask offline (model), to a new file; free.

        Raises:
            ReleaseError: the file exists, or cannot be written.
            ServiceError: the service refuses the request, or does not answer.
        """
        content = self._export(format, rows, None)
        try:
            with Path(path).open("xb") as file:
                file.write(content)
        except OSError as error:
            raise ReleaseError(f"{path}: the file cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Let go of the connection; the next question makes another."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteSession({self.name!r} at {self._connection.host}:{self._connection.port})"

    def _only_session(self) -> str:
        names = [one["name"] for one in json.loads(self._sent("GET", f"{self._base}/sessions"))["sessions"]]
        if len(names) != 1:
            raise ServiceError(f"give session=, one of {', '.join(names) or 'none'}")
        return str(names[0])

    def _export(self, format: str, rows: int | None, seed: int | None) -> bytes:
        asked = {key: value for key, value in (("rows", rows), ("seed", seed)) if value is not None}
        return self._sent("GET", f"{self._address}/export?{urlencode({'format': format, **asked})}")

    @property
    def _address(self) -> str:
        return f"{self._base}/sessions/{quote(self.name, safe='')}"

    def _json(
        self,
        method: str,
        place: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = True,
    ) -> dict[str, Any]:
        content = self._sent(method, self._address + place, body, headers, again=again)
        try:
            form = json.loads(content)
        except ValueError:
            form = None
        if not isinstance(form, dict):
            raise ServiceError("expected a JSON object of the service, got something else; look at the URL")
        return form

    def _sent(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = True,
    ) -> bytes:
        """Return the content of a good response; a busy or silent service is asked again, after a pause."""
        content = None if body is None else json.dumps(body).encode()
        sent = {
            **self._headers,
            **(headers or {}),
            **({"Content-Type": "application/json"} if content else {}),
        }
        for turn in range(_TRIES):
            status, found, told = self._tried(method, path, content, sent)
            may = turn < _TRIES - 1 and (status == 429 or (again and status in (0, 503)))
            if not may:
                break
            time.sleep(pause_before(turn + 1, told, drawn_part()))
        if status != 200:
            raise _refusal(status, found)
        return found

    def _tried(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, str]:
        with self._lock:
            try:
                self._connection.request(method, path, content, headers)
                response = self._connection.getresponse()
                return response.status, response.read(), response.getheader("Retry-After", "")
            except (OSError, http.client.HTTPException):
                self._connection.close()
                return 0, b"", ""


def pause_before(turn: int, told: str, drawn: float) -> float:
    """Return how many seconds to wait before a request is made again.

    Clients that were refused together do not come back together.

    Args:
        turn: 1 for the second try.
        told: the header Retry-After of the refusal; empty for none.
        drawn: in [0, 1], another one for each client and try.
    """
    if told.isascii() and told.isdecimal():
        return min(float(told[:6]), _LONGEST_TOLD) * (1 + drawn / 2)
    return min(0.1 * 2.0 ** (turn - 1), _LONGEST_PAUSE) * (1 + drawn) / 2


def drawn_part() -> float:
    """Return a number in [0, 1) that clients share by chance alone: the last digits of the clock."""
    return time.perf_counter_ns() // 100 % 1000 / 1000


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_SECONDS)
    return http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=ssl.create_default_context())


def _base_and_name(path: str) -> tuple[str, str]:
    """Return the path of a service, and the name of the session that follows it, if any."""
    parts = [part for part in path.split("/") if part]
    for place, part in enumerate(parts[:-1]):
        if part in ("sessions", "page"):
            return "".join(f"/{one}" for one in parts[:place]), parts[place + 1]
    return "".join(f"/{part}" for part in parts), ""


def _where(question: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"where": question if isinstance(question, str) else dict(question)}


def answer_of(form: Mapping[str, Any]) -> Answer:
    """Return the answer of an answer object.

    Raises:
        QueryError: the object tells that the question is refused.
    """
    if "error" in form and form.get("source") != Source.REFUSED.value:
        raise _question_error(form["error"])
    interval, typical = (None if form[key] is None else tuple(form[key]) for key in ("interval", "typical"))
    refused = form["count"] is None
    return Answer(
        math.nan if refused else form["count"],
        math.nan if refused else form["fraction"],
        interval,
        form["confidence"],
        Source(form["source"]),
        form["aligned"],
        form["version"],
        Spent(**form["spent"]),
        seeded=form.get("seeded", False),
        typical=typical,
        kept=RecordsKept(**form["records_kept"]) if "records_kept" in form else None,
    )


def _refusal(status: int, content: bytes) -> Exception:
    """Return the error of a response that is not good."""
    try:
        error = json.loads(content)["error"]
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):
        error, message = (
            {},
            "the service does not answer" if status == 0 else "the service refuses the request",
        )
    if error.get("code") == "budget_exhausted":
        return BudgetExhaustedError(message)
    if status in (400, 409) and "code" in error:
        return _question_error(error)
    return ServiceError(message, status=status or None)


def _question_error(error: Mapping[str, Any]) -> QueryError:
    return QueryError(str(error["message"]), code=str(error["code"]), position=error.get("position"))
