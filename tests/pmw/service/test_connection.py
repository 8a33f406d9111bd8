"""The connection: whatever a service sends, a client gets a result or an error of ours."""

from __future__ import annotations

import pytest

from pmw.errors import PMWError, ServiceError
from pmw.service.connection import Connection, Response

DEEP = b"[" * 100_000
BROKEN = (
    b"",
    b"{}",
    b"[]",
    b"5",
    b"null",
    b"\xff",
    DEEP,
    b'{"error": 5}',
    b'{"error": {"code": []}}',
    b'{"sessions": 5}',
)


def connection(monkeypatch: pytest.MonkeyPatch, status: int, content: bytes) -> Connection:
    monkeypatch.setattr(Connection, "_tried", lambda *_: Response(status, content))
    monkeypatch.setattr("pmw.service.connection.time.sleep", lambda _: None)
    return Connection("http://127.0.0.1:9", token="x", session="study")  # noqa: S106


@pytest.mark.parametrize("content", BROKEN, ids=lambda content: content[:20].decode(errors="replace"))
@pytest.mark.parametrize("status", [200, 400, 403, 500])
def test_what_is_no_answer_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, status: int, content: bytes
) -> None:
    held = connection(monkeypatch, status, content)
    if status != 200:
        with pytest.raises(PMWError):
            held.sent("GET", "/ledger")
    with pytest.raises(ServiceError):
        Connection("http://127.0.0.1:9", token="x")  # noqa: S106


def test_messages_of_a_service_are_fit_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"error": {"code": "x", "message": "\\u001b]0;owned\\u0007' + b"a" * 5000 + b'"}}'
    with pytest.raises(ServiceError) as told:
        connection(monkeypatch, 403, content).sent("GET", "/ledger")
    assert str(told.value).isprintable()
    assert len(str(told.value)) <= 2000
