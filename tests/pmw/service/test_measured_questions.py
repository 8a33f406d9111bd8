"""Questions that are measured themselves, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

ASK = "/sessions/study/ask"


def test_questions_are_measured_together_once_under_a_key(client: TestClient, add: Any) -> None:
    ann, address = add("ann", "1/2"), "/sessions/study/measure"
    groups = "SELECT region, COUNT(*) AS n FROM people WHERE member = TRUE GROUP BY region"
    body = {"questions": ["sex = 'Male' AND region = 'north'", {"age": {"ge": 30}}, groups], "within": 60}
    told = client.post(address, json={**body, "dry_run": True}, headers=ann).json()
    assert told["questions"] == told["cells"] > 3
    assert client.get("/sessions/study", headers=ann).json()["you"]["spent"] == 0
    keyed = {**ann, "Idempotency-Key": "k"}
    paid = [client.post(address, json={**body, "at_most": 1}, headers=keyed).json() for _ in range(2)]
    assert paid == [told, told]
    spent = client.get("/sessions/study", headers=ann).json()["you"]["spent"]
    assert spent == pytest.approx(told["share"])
    answer = client.post(ASK, json={"where": "sex = 'Male' AND region = 'north'", "at_most": 0}, headers=ann)
    low, high = answer.json()["interval"]
    assert high - low <= 120.1


@pytest.mark.parametrize(
    "body",
    [
        {"questions": []},
        {"questions": ["age >= 30"], "scope": ["sex"]},
        {"questions": ["age >= 30"], "heads": True},
        {"questions": ["age >= 30"], "share": 0.1, "within": 3},
        {"questions": ["height >= 30"]},
        {"questions": ["SELECT AVG(age) FROM people"]},
        {"scope": ["sex"], "within": 30},
        {
            "questions": [
                f"SELECT COUNT(*) AS n FROM people WHERE age > {age} GROUP BY ALL" for age in range(0)
            ]
        },
        {
            "questions": [
                f"SELECT age, sex, region, member, COUNT(*) AS n FROM people WHERE age > {age} GROUP BY ALL"
                for age in range(20, 49)
            ]
        },
    ],
)
def test_lists_that_cannot_be_measured_are_refused(
    body: dict[str, Any], client: TestClient, add: Any
) -> None:
    ann = add("ann", "1/2")
    refused = client.post("/sessions/study/measure", json=body, headers=ann)
    assert refused.status_code == 400, refused.text
    assert client.get("/sessions/study", headers=ann).json()["you"]["spent"] == 0
