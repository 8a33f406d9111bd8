"""``pmw mcp`` as a client of the protocol starts it: a process that writes the protocol alone."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pmw.session.maintenance import read_ledger, read_session
from tests.pmw.cli.commands import Run
from tests.pmw.cli.test_processes import KILLED
from tests.waiting import WAIT
from tests.worlds import known

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import ElicitResult

Calls = list[tuple[str, dict[str, Any]]]

PAIR = "sex = 'Male' AND region = 'north'"
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a test", "version": "1"},
}


async def agrees(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"pay": True})


def asked(calls: list[tuple[str, dict[str, Any]]], *arguments: str) -> list[Any]:
    """Return what the command tells an assistant whose person agrees to every price."""
    started = StdioServerParameters(command=sys.executable, args=["-m", "pmw", "mcp", *arguments])

    async def run() -> list[Any]:
        async with Client(stdio_client(started), elicitation_callback=agrees) as client:
            return [(await client.call_tool(*call)).structured_content for call in calls]

    return asyncio.run(asyncio.wait_for(run(), WAIT))


def written(*calls: tuple[str, dict[str, Any]]) -> str:
    """Return the lines of a client that cannot ask a person."""
    requests = [("initialize", HELLO), *(("tools/call", {"name": n, "arguments": a}) for n, a in calls)]
    lines = [
        {"id": number, "method": method, "params": params} for number, (method, params) in enumerate(requests)
    ]
    lines.insert(1, {"method": "notifications/initialized"})
    return "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)


def test_an_assistant_asks_a_file_and_a_person_pays(yearly_study: Path, run: Run) -> None:
    before, bar = read_ledger(yearly_study), {"question": PAIR, "within": 150}
    one, paid, budget = asked(
        [("ask", {"question": PAIR}), ("pay", bar), ("budget", {})], str(yearly_study), "--at-most", "0.1%"
    )
    assert (one["source"], paid["source"]) == ("unverified", "synthetic")
    assert budget["own"]["name"] == "assistant"
    assert budget["without_a_person"] == {"one_question": 0.001, "all_together": 0.001}
    after = read_ledger(yearly_study)
    assert len(after.lines) == len(before.lines) + 1
    assert after.share - before.share == pytest.approx(paid["spent"]["charged"])
    run.told("verify", "study.pmw")


def test_standard_output_is_the_protocols_alone_and_nothing_is_spent(yearly_study: Path) -> None:
    before = read_session(yearly_study)[0].ledger.spent
    calls: Calls = [
        ("ask", {"question": PAIR}),
        ("pay", {"question": PAIR, "within": 60}),
        ("ask", {"question": "x = 1"}),
    ]
    command = [sys.executable, "-m", "pmw", "mcp", str(yearly_study)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        write, read, errors = map(known, (process.stdin, process.stdout, process.stderr))
        write.write(written(*calls))
        write.flush()
        told = [json.loads(read.readline()) for _ in range(4)]
        write.close()
        assert (read.read(), errors.read()) == ("", "")
        assert process.wait(WAIT) == 0
    assert {one["id"] for one in told} == {0, 1, 2, 3}
    texts = {one["id"]: one["result"]["content"][0]["text"] for one in told if one["id"]}
    assert json.loads(texts[2])["code"] == "not_paid"
    assert json.loads(texts[3])["code"] == "unknown_attribute"
    assert read_session(yearly_study)[0].ledger.spent == before


def test_killed_while_it_pays_the_session_stays_whole_and_pays_once(yearly_study: Path, run: Run) -> None:
    before, bar = read_ledger(yearly_study), {"question": PAIR, "within": 150}
    command = [sys.executable, "-c", KILLED.format(most=1, after=False)]
    killed = subprocess.run(
        [*command, "mcp", str(yearly_study), "--at-most", "5%"],
        input=written(("pay", bar)), capture_output=True, text=True, check=False, timeout=WAIT,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    (answer,) = asked([("pay", bar)], str(yearly_study))
    assert answer["source"] in ("measured", "synthetic")
    assert len(read_ledger(yearly_study).lines) == len(before.lines) + 1
    run.told("verify", "study.pmw")
