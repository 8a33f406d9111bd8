"""The page in Chromium: the journeys of an analyst and of a custodian, by keyboard, in light and dark."""

from __future__ import annotations

import re
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
from tests.waiting import joined

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra 'service' is not installed")


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BOX = "A condition, or a statement in SQL"
SCREENS = [(scheme, width) for scheme in ("light", "dark") for width in (360, 800, 1400)]
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
    joined(thread)


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

    def ask(self, question: str) -> None:
        self.page.get_by_label(BOX).fill(question)
        self.page.get_by_label(BOX).press("Control+Enter")
        self.page.get_by_role("heading", name="Answer", exact=True).wait_for()

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

    def smallest_text(self) -> float:
        """Return the height of the smallest letters in charts, in pixels."""
        found = self.page.evaluate(
            "[...document.querySelectorAll('figure svg text')].map(e =>"
            " parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getScreenCTM().a)"
        )
        return float(min(found))

    def least_contrast(self) -> float:
        """Return the least contrast of a text with what is behind it, as WCAG counts it."""
        return float(self.page.evaluate(_CONTRAST))


@pytest.fixture
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


# Of each element with a text of its own: its colour against the first background that is not transparent.
_CONTRAST = """(() => {
  const parts = text => (text.match(/[0-9.]+/g) || []).map(Number);
  const light = text => parts(text).slice(0, 3).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
  const behind = e => { for (; e; e = e.parentElement) {
    const found = getComputedStyle(e).backgroundColor, told = parts(found);
    if (told.length < 4 || told[3] > 0) return found; }
    return 'rgb(255, 255, 255)'; };
  let least = 21;
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!e.getClientRects().length) continue;
    const style = getComputedStyle(e), text = e instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(text), light(behind(e))];
    least = Math.min(least, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
  }
  return least;
})()"""


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_an_analyst_asks_by_keyboard(
    browser: Any, address: str, users: UsersFile, tmp_path: Path, scheme: str, width: int
) -> None:
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    journey = Journey(browser, address, color_scheme=scheme, viewport={"width": width, "height": 900})
    page = journey.page
    journey.sign_in(token)
    page.get_by_role("link", name="study", exact=True).press("Enter")
    page.get_by_role("heading", name="study: people").wait_for()
    names = journey.controls()
    order = [
        names.index(name) for name in (BOX, "Ask", "What does it cost?", "Build a question", "All values")
    ]
    assert order == sorted(order)

    page.get_by_label(BOX).fill("SELECT age, COUNT(*) FROM people GROUP BY age")
    page.get_by_role("button", name="What does it cost?").press("Enter")
    page.get_by_role("heading", name="Not asked yet").wait_for()
    assert page.get_by_text(re.compile("^The question (costs|is free)")).count() == 1
    page.get_by_role("button", name="Ask it").press("Enter")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    assert page.get_by_role("img", name="count by age").count() == 1
    assert "40 of 42 points." in page.locator("figcaption").inner_text()
    answered = page.url
    journey.ask("SELECT region, sex, COUNT(*) FROM people GROUP BY region, sex")
    assert "All 24 bars." in page.locator("figcaption").inner_text()
    for url in (page.url, answered):
        page.goto(url)  # to look at an address again asks nothing again
        page.get_by_role("heading", name="Answer", exact=True).wait_for()
        assert journey.fits()
        assert journey.smallest_text() >= 12
        assert journey.least_contrast() >= 4.5
    page.screenshot(path=tmp_path / "answer.png", full_page=True)

    page.get_by_label(BOX).fill("age >> 40")
    page.get_by_role("button", name="Ask", exact=True).press("Enter")
    page.get_by_role("alert").wait_for()
    assert "Not answered" in page.get_by_role("alert").inner_text()
    assert journey.least_contrast() >= 4.5

    page.get_by_label(BOX).fill("sex = 'Male'\nAND region = 'north'")
    page.get_by_label("Within ± records").fill("30")
    page.get_by_role("button", name="What does it cost?").press("Enter")
    with (
        page.expect_navigation()
    ):  # its counts may have been asked as groups: then there is an answer already
        page.get_by_role("button", name=re.compile("^(Pay, and answer|Answer it, free)$")).press("Enter")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    assert page.get_by_label(BOX).input_value() == "sex = 'Male'\nAND region = 'north'"
    for place in ("What can be asked", "What you asked"):
        page.get_by_role("link", name=place).first.press("Enter")
        page.get_by_role("heading", name=place, level=1).wait_for()
        assert journey.fits()
        assert journey.least_contrast() >= 4.5
    journey.controls()
    page.get_by_label("Questions with the text").fill("REGION = 'north'")
    page.keyboard.press("Enter")
    page.get_by_text("1 question with this text").wait_for()
    page.get_by_role("link", name="AND region = 'north'").press("Enter")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    page.get_by_role("button", name="Sign out ann").press("Enter")
    page.get_by_role("heading", name="Sign in").wait_for()
    journey.end()


def test_an_answer_is_downloaded_and_taken_elsewhere(browser: Any, address: str, users: UsersFile) -> None:
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    journey = Journey(browser, address)
    page = journey.page
    journey.sign_in(token)
    page.goto(f"{address}/page/study")
    journey.ask("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    starts = {"CSV": b"sex,count", "JSON": b'{\n "rows"', "chart as SVG": b"<svg", "chart as PNG": b"\x89PNG"}
    for name, start in starts.items():
        with page.expect_download() as download:
            page.get_by_text(name, exact=True).press("Enter")
        assert Path(download.value.path()).read_bytes().startswith(start)
    page.get_by_text("The same in Python, SQL, curl").click()
    page.get_by_role("button", name="Copy for SQL").press("Enter")
    page.get_by_text(re.compile("^(Copied|Marked)$")).wait_for()
    assert token not in page.content()
    journey.end()


def test_a_link_is_opened_after_signing_in(browser: Any, address: str, users: UsersFile) -> None:
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    journey = Journey(browser, address, java_script_enabled=False)
    page = journey.page
    page.goto(f"{address}/page/study?q=age+%3E%3D+40")
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Sign in").press("Enter")
    page.get_by_role("heading", name="Not asked yet").wait_for()
    assert page.get_by_label(BOX).input_value() == "age >= 40"
    journey.complaints = [
        one for one in journey.complaints if "401" not in one
    ]  # Chromium tells of the first
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
    page.get_by_role("group", name="sex").get_by_label("Male", exact=True).check()
    page.get_by_role("group", name="sex").get_by_label("(missing)").check()
    page.get_by_role("button", name="Write the question").press("Enter")
    box = page.get_by_label(BOX)
    assert box.input_value() == '"age" >= 30 AND ("sex" IN (\'Male\') OR "sex" IS NULL)'
    page.get_by_role("button", name="Ask", exact=True).press("Enter")
    page.get_by_role("heading", name="Answer", exact=True).wait_for()
    page.get_by_text("Build a question").click()
    assert page.get_by_role("group", name="age").get_by_label("from").input_value() == "30"
    assert page.get_by_role("group", name="sex").get_by_label("(missing)").is_checked()
    journey.end()


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_a_custodian_sees_what_was_spent_and_the_report(
    browser: Any, address: str, users: UsersFile, scheme: str, width: int
) -> None:
    token = users.add(User("carol", Role.CUSTODIAN, Fraction(1)))
    journey = Journey(browser, address, color_scheme=scheme, viewport={"width": width, "height": 900})
    page = journey.page
    journey.sign_in(token)
    page.get_by_role("link", name="study", exact=True).press("Enter")
    page.get_by_role("link", name="Budget and ledger").press("Enter")
    page.get_by_role("heading", name="Users").wait_for()
    assert journey.fits()
    assert journey.smallest_text() >= 12
    assert journey.least_contrast() >= 4.5
    assert page.get_by_role("img", name="the budget over time").count() == 1
    assert page.get_by_role("table", name="Every charge").get_by_role("row").count() > 3
    page.get_by_role("link", name="The report").press("Enter")
    page.wait_for_url("**/report")
    assert page.title().startswith("Report on")
    assert journey.fits()
    journey.end()
