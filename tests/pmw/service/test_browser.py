"""The page in Chromium: the journeys of an analyst and of a custodian, by keyboard, in light and dark."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pmw.service.app import create_app
from pmw.service.hosting import Service
from pmw.service.users import Role, User, UsersFile

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra 'service' is not installed")


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(create_app(service), port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


class Journey:
    """One person at a browser, who notes whatever it complains about or asks others for."""

    def __init__(self, browser: Any, address: str, **choices: Any) -> None:
        self.context = browser.new_context(**choices)
        self.page = self.context.new_page()
        self.address, self.complaints = address, list[str]()
        self.hosts = set[str]()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "request", lambda request: self.hosts.add(request.url.partition("://")[2].partition("/")[0])
        )

    def sign_in(self, token: str) -> None:
        self.page.goto(self.address)
        self.page.get_by_label("Your token").fill(token)
        self.page.keyboard.press("Enter")
        self.page.get_by_role("heading", name="Sessions").wait_for()

    def end(self) -> None:
        assert not self.complaints
        assert self.hosts <= {self.address.partition("://")[2], ""}
        self.context.close()

    def fits(self) -> bool:
        """Tell whether the page needs no scrolling sideways."""
        width = self.page.evaluate("document.documentElement.scrollWidth")
        return bool(width <= self.page.evaluate("window.innerWidth"))

    def controls(self) -> list[str]:
        """Return the names of what the tab key reaches, and check that it is everything and has names."""
        found: list[str] = []
        reached = 0
        kinds = "a[href], button, input:not([type=hidden]), select, textarea, summary"
        total = self.page.locator(kinds).locator("visible=true").count()
        self.page.evaluate("document.activeElement.blur()")
        for _ in range(total + 20):  # tables are reached too
            self.page.keyboard.press("Tab")
            name = self.page.evaluate(
                "(() => { const e = document.activeElement; if (!e || e === document.body) return null;"
                " return (e.labels && e.labels[0] || e).innerText || e.getAttribute('aria-label') || ''; })()"
            )
            if name is None:
                break
            assert name.strip()
            found.append(name.strip())
            reached += self.page.evaluate("kinds => document.activeElement.matches(kinds)", kinds)
        assert reached == total
        return found


@pytest.fixture
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_an_analyst_asks_by_keyboard(
    browser: Any, address: str, users: UsersFile, tmp_path: Path, scheme: str, width: int
) -> None:
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    journey = Journey(browser, address, color_scheme=scheme, viewport={"width": width, "height": 900})
    page = journey.page
    journey.sign_in(token)
    page.get_by_role("link", name="study", exact=True).press("Enter")
    page.get_by_role("heading", name="study: people").wait_for()
    assert journey.fits()
    names = journey.controls()
    assert {"A condition, or a statement in SQL", "Ask", "Build a question", "What does it cost?"} <= set(
        names
    )

    box = page.get_by_label("A condition, or a statement in SQL")
    box.fill("SELECT sex, COUNT(*) FROM people WHERE age >= 40 GROUP BY sex")
    box.press("Control+Enter")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    assert page.get_by_role("img", name="count with its intervals").count() == 1
    assert page.get_by_role("table", name="The answer as a table").get_by_role("row").count() == 5
    assert journey.fits()
    page.screenshot(path=tmp_path / "answer.png", full_page=True)

    page.get_by_label("A condition, or a statement in SQL").fill("age >> 40")
    page.get_by_role("button", name="Ask", exact=True).press("Enter")
    page.get_by_role("alert").wait_for()
    assert "Not answered" in page.get_by_role("alert").inner_text()

    page.get_by_label("A condition", exact=True).fill("sex = 'Male' AND region = 'north'")
    page.get_by_label("within ± records").fill("30")
    page.get_by_role("button", name="What does it cost?").press("Enter")
    page.get_by_role("button", name="Pay, and answer").press("Enter")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    assert "sex Male and region north" in page.get_by_role("table", name="Your questions").inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV").press("Enter")
    assert "sex Male" in Path(download.value.path()).read_text()

    page.get_by_role("button", name="Sign out ann").press("Enter")
    page.get_by_role("heading", name="Sign in").wait_for()
    journey.end()


def test_a_question_is_built_without_the_script(browser: Any, address: str, users: UsersFile) -> None:
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    journey = Journey(browser, address, java_script_enabled=False)
    page = journey.page
    page.goto(address)
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Sign in").press("Enter")
    page.goto(f"{address}/page/study")
    page.get_by_text("Build a question").click()
    page.get_by_role("group", name="age").get_by_label("from").fill("30")
    page.get_by_role("group", name="sex").get_by_label("any of").select_option(label="Male")
    page.get_by_role("button", name="Write the question").press("Enter")
    box = page.get_by_label("A condition, or a statement in SQL")
    assert box.input_value() == '"age" >= 30 AND "sex" IN (\'Male\')'
    page.get_by_role("button", name="Ask", exact=True).press("Enter")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    journey.end()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_custodian_sees_what_was_spent_and_the_report(
    browser: Any, address: str, users: UsersFile, width: int
) -> None:
    token = users.add(User("carol", Role.CUSTODIAN, Fraction(1)))
    journey = Journey(browser, address, viewport={"width": width, "height": 900})
    page = journey.page
    journey.sign_in(token)
    page.get_by_role("link", name="study", exact=True).press("Enter")
    page.get_by_role("link", name="Budget and ledger").press("Enter")
    page.get_by_role("heading", name="Who spent what").wait_for()
    assert journey.fits()
    assert page.get_by_role("table", name="Every charge").get_by_role("row").count() > 3
    page.get_by_role("link", name="The report").press("Enter")
    page.wait_for_url("**/report")
    assert page.title().startswith("Report on")
    assert journey.fits()
    journey.end()
