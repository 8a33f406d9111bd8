"""The API: answers, roles and refusals over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

ASK = "/sessions/study/ask"


def test_what_needs_no_token(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) >= {"/sessions", "/sessions/{name}/ask", "/activity"}
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404


def test_an_answer_is_the_object_that_the_command_prints(client: TestClient, add: Any) -> None:
    ann = add("ann")
    answer = client.post(ASK, json={"where": "age >= 30"}, headers=ann)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {
        "count", "fraction", "interval", "typical", "confidence", "source", "aligned", "version", "spent",
    }  # fmt: skip
    groups = client.post(ASK, json={"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}, headers=ann)
    assert [one["sex"] for one in groups.json()["groups"]][:2] == ["Female", "Male"]
    means = client.post(ASK, json={"sql": "SELECT sex, AVG(age) FROM people GROUP BY sex"}, headers=ann)
    assert means.status_code == 200
    several = [
        {"id": "a", "where": "age >= 30"},
        {"id": 2, "where": "height > 2"},
        {"where": {"sex": {"eq": "Male"}}},
    ]
    answers = client.post(ASK, json={"queries": several}, headers=ann).json()["answers"]
    assert answers[0] == {"id": "a", **answer.json()}
    assert answers[1]["id"] == 2
    assert answers[1]["error"]["code"] == "unknown_attribute"
    assert answers[2]["interval"] is not None
