"""Ceilings of users: what a custodian lets one question charge, whatever the request allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import pytest
from fastapi.testclient import TestClient

from pmw.cli.answering import paid
from pmw.errors import PriceError
from pmw.service.connection import _refusal
from pmw.service.hosting import Service
from pmw.service.users import Role

if TYPE_CHECKING:
    from pmw.session.asking import Asking

ASK, MEASURE, PAGE = "/sessions/study/ask", "/sessions/study/measure", "/page/study/ask"
PAIR = "sex = 'Male' AND region = 'north'"
GROUPS = "SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region"
MEAN = "SELECT AVG(age) FROM people WHERE region = 'north'"
# All that can charge something, where a request may allow all of the budget: its address and its body.
PAYING: dict[str, tuple[str, dict[str, Any]]] = {
    "a question": (ASK, {"where": PAIR, "at_most": 1}),
    "a statement": (ASK, {"sql": GROUPS, "at_most": 1}),
    "a mean": (ASK, {"sql": MEAN, "at_most": 1}),
    "an aggregate": (ASK, {"aggregate": {"kind": "count", "by": ["sex", "region"]}, "at_most": 1}),
    "several": (ASK, {"queries": [{"where": PAIR}, {"sql": GROUPS}], "at_most": 1}),
    "a bar": (ASK, {"where": PAIR, "within": 40, "at_most": 1}),
    "bars": (ASK, {"sql": GROUPS, "within": 40, "at_most": 1}),
    "the bar of a mean": (ASK, {"sql": MEAN, "within": 2, "at_most": 1}),
    "a table of counts": (MEASURE, {"scope": ["sex", "region"], "at_most": 1}),
    "questions themselves": (MEASURE, {"questions": [PAIR], "within": 40, "at_most": 1}),
    "questions for a share": (MEASURE, {"questions": [PAIR], "share": 0.05}),
    "sums": (MEASURE, {"sum": "age", "scope": ["region"], "share": 0.05}),
}
ON_THE_PAGE = [
    {"q": PAIR, "price": "1"},
    {"q": GROUPS, "price": "1"},
    {"q": PAIR, "within": "40", "price": "1"},
    {"q": MEAN, "within": "2", "price": "1"},
]

Spent = Callable[[], Fraction]


@pytest.fixture
def spent(service: Service) -> Spent:
    """Return what was charged to the session, exactly."""
    session = service.hosted(service.users.listed()[0], "study").session
    return lambda: session.state.ledger.spent


def test_no_request_raises_a_ceiling_and_one_of_0_pays_nothing(
    client: TestClient, add: Any, spent: Spent
) -> None:
    poor, ann = add("poor", "1/2", at_most=Fraction(0)), add("ann", "1/2", at_most=Fraction(1, 10**4))
    before = spent()
    for kind, (address, body) in PAYING.items():
        refused = client.post(address, json=body, headers=poor)
        assert refused.status_code in (200, 403), kind
        if refused.status_code == 403:
            assert refused.json()["error"]["code"] in ("above_ceiling", "budget_exhausted"), kind
        refused = client.post(address, json=body, headers=ann)
        assert refused.status_code == (200 if kind == "several" else 403), (kind, refused.text)
        found = refused.json()
        errors = [one["error"] for one in found["answers"]] if kind == "several" else [found["error"]]
        assert {error["code"] for error in errors} == {"above_ceiling"}, kind
        assert all(error["price"] > 1e-4 for error in errors), kind
        assert all("your ceiling for one question is 0.01%" in error["message"] for error in errors), kind
    for asked in ON_THE_PAGE:
        assert client.post(PAGE, data=asked, headers=poor).status_code < 500, asked
    assert spent() == before


def test_a_changed_ceiling_holds_from_the_next_request_on(
    client: TestClient, add: Any, service: Service, spent: Spent
) -> None:
    ann, before = add("ann", "1/2"), spent()
    service.users.change("ann", lambda user: replace(user, at_most=Fraction(1, 10**4)))
    refused = client.post(ASK, json={"where": PAIR, "at_most": 1}, headers=ann)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "above_ceiling")
    assert client.get("/sessions", headers=ann).json()["at_most"] == 1e-4
    assert spent() == before
    service.users.change("ann", lambda user: replace(user, at_most=None))
    assert client.get("/sessions", headers=ann).json()["at_most"] is None
    assert client.post(ASK, json={"where": PAIR, "at_most": 1}, headers=ann).status_code == 200
    booked = client.get("/sessions/study/you", headers=ann).json()
    service.users.change("ann", lambda user: replace(user, share=Fraction(0)))
    after = client.get("/sessions/study/you", headers=ann).json()
    assert after["spent"] == booked["spent"] > 0
    assert (after["share"], after["left"]) == (0, 0)


def test_the_page_says_a_ceiling_and_offers_no_payment_above_it(client: TestClient, add: Any) -> None:
    ann, cat = add("ann", "1/2", at_most=Fraction(1, 10**4)), add("cat", 1, role=Role.CUSTODIAN)
    assert "One question may charge at most 0.01%." in client.get("/page/study", headers=ann).text
    page = client.post(PAGE, data={"q": PAIR, "price": "1"}, headers=ann).text
    assert "your ceiling for one question is 0.01%" in page
    assert "Pay, and answer" not in page
    assert "0.010%" in client.get("/page/study/custodian", headers=cat).text


def test_a_client_knows_a_ceiling_from_a_price_and_asks_for_no_yes(
    client: TestClient, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = add("ann", "1/2", at_most=Fraction(1, 10**4))
    refused = client.post(ASK, json={"where": PAIR}, headers=ann)
    error = _refusal(refused.status_code, refused.content)
    assert isinstance(error, PriceError)
    assert (error.code, error.price) == ("above_ceiling", refused.json()["error"]["price"])
    monkeypatch.setattr("pmw.cli.answering.agrees", lambda price: pytest.fail(f"asked to pay {price}"))

    def ask(at_most: object) -> None:
        raise error

    with pytest.raises(PriceError) as told:
        paid(cast("Asking", None), None, ask)
    assert told.value is error
