"""Shares over HTTP: told as parts of the whole budget, and no more than is left of that."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from pmw.service.hosting import Service
from pmw.service.users import Role


def test_shares_tell_what_is_left_of_the_budget_where_that_is_less(
    client: TestClient, add: Any, service: Service
) -> None:
    ann, cat = add("ann", "1/2"), add("cat", role=Role.CUSTODIAN, share=1)
    session = service.hosted(service.users.listed()[0], "study").session
    you = client.get("/sessions/study/you", headers=ann).json()
    share = you["share"]
    assert share == you["left"] == pytest.approx((1 - session.state.ledger.share) / 2)
    while session.measure(["region"], dry_run=True).affordable:
        session.measure(["region"])
    left = float(session.state.ledger.remaining / session.state.ledger.cap)
    assert left < share
    you = client.get("/sessions/study/you", headers=ann).json()
    assert (you["share"], you["left"]) == (share, left)
    assert client.get("/sessions/study", headers=ann).json()["you"]["left"] == left
    assert client.get("/sessions", headers=ann).json()["sessions"][0]["share"] == left
    page = client.get("/page/study", headers=ann).text
    assert f"You may still spend {left:.2%} of the whole budget. Your share is {share:.1%} of it" in page
    known = client.get("/page/study/custodian", headers=cat).text
    assert f'<td class="text">{left:.1%}</td>' in known.replace("<td>", '<td class="text">')
