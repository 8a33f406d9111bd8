"""The site's page that asks a model in the browser: its Python alone, and the whole of it in Chromium.

The whole of it needs a built site with what the page loads: ``PMW_SITE`` names its folder, after
``scripts/build_site`` and ``scripts/build_browser.py``.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pmw import Domain, load_model, open_session
from queries import CategoricalAttribute, IntegerAttribute
from tests.waiting import joined

ROOT = Path(__file__).parent.parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BOX = "A condition, or a statement in SQL"
STATEMENTS = [
    "SELECT age, COUNT(*) AS n FROM fertility GROUP BY age",
    "SELECT morekids, gender1, COUNT(*), AVG(age) FROM fertility GROUP BY morekids, gender1",
    "SELECT MEDIAN(age), SUM(work) FROM fertility WHERE work >= 20 AND afam = 'yes'",
    "age BETWEEN 25 AND 30 AND work < 10",
]


@pytest.fixture(scope="module")
def page() -> ModuleType:
    """What the worker runs, run here."""
    spec = importlib.util.spec_from_file_location("browser_model", ROOT / "docs/browser/model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of a table with a value that a careless page would run."""
    attributes = (
        CategoricalAttribute("ward", ("a", "<img src=x onerror=alert(1)>")),
        IntegerAttribute("age", 0, 79),
    )
    domain = Domain(attributes, "clinic")
    generator = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "ward": generator.choice(["a", "<img src=x onerror=alert(1)>"], 4000, p=[0.7, 0.3]),
            "age": generator.integers(0, 80, 4000),
        }
    )
    path = tmp_path_factory.mktemp("browser") / "clinic.model"
    with open_session(frame, domain, epsilon=1, delta=1e-9, path=path.parent / "clinic.pmw") as session:
        session.export(path)
    return path


def test_a_model_tells_what_can_be_asked_and_no_text_of_it_becomes_markup(
    page: ModuleType, model_file: Path
) -> None:
    told = json.loads(page.opened(model_file.read_bytes()))
    assert told["statement"].startswith('SELECT "ward"')
    assert "What can be asked of clinic" in told["html"]
    answer = json.loads(page.answered(told["statement"]))
    assert answer["html"] == load_model(model_file).sql(told["statement"])._repr_html_()
    assert json.loads(page.answered("age >= 40"))["html"].startswith("<p>About ")
    for html in (told["html"], answer["html"]):
        assert "onerror" in html
        assert "<img" not in html


def test_what_is_no_model_and_no_question_is_refused_in_words_with_its_place(
    page: ModuleType, model_file: Path
) -> None:
    assert json.loads(page.opened(b"nonsense")) == {"error": "the file is no model, or it is damaged"}
    page.opened(model_file.read_bytes())
    told = "unknown attribute 'agee'; declared are ward, age; did you mean 'age'?\nagee > 3\n^"
    assert json.loads(page.answered("agee > 3")) == {"error": told}
    error = json.loads(page.answered("SELECT COUNT(*) FROM nowhere"))["error"]
    assert error.splitlines()[-2:] == ["SELECT COUNT(*) FROM nowhere", " " * 21 + "^"]


# What the page shows at first, where a server has what it loads or has not.
SHOWN = """
const [page, parts, status] = process.argv.slice(1);
const hidden = JSON.parse(parts), asked = [], nothing = { addEventListener() {} };
globalThis.document = {
    currentScript: { src: "http://localhost/browser/page.js" },
    getElementById: (id) => ({
        ...nothing, set hidden(value) { if (!(id in hidden)) throw id; hidden[id] = value; },
    }),
    querySelectorAll: () => [],
};
globalThis.fetch = async (address, { method }) => {
    asked.push([method, address.pathname]);
    return { ok: status == 200 };
};
eval(require("node:fs").readFileSync(page, "utf8"));
setTimeout(() => console.log(JSON.stringify({ asked, hidden })));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
@pytest.mark.parametrize(("status", "shown"), [(200, "browser-choice"), (404, "browser-absent")])
def test_there_is_something_to_choose_where_a_model_and_python_are_at_hand(status: int, shown: str) -> None:
    text = (ROOT / "docs/browser.md").read_text()
    hidden = dict.fromkeys(re.findall(r'id="(browser-[a-z]+)"[^>]* hidden>', text), True)
    choice = re.search(r'<div id="browser-choice" hidden>(.*?)</div>', text, re.DOTALL)
    assert choice is not None
    assert 'id="browser-demo"' in choice[1]
    assert 'id="browser-file"' in choice[1]
    command = ["node", "-e", SHOWN, str(ROOT / "docs/browser/page.js"), json.dumps(hidden), str(status)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert told["asked"] == [["HEAD", "/browser/runtime/demo.model"]]
    assert [part for part, is_hidden in told["hidden"].items() if not is_hidden] == [shown]


# --- in Chromium --------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The texts of a table's cells, or of a paragraph."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.texts += [data.strip()] if data.strip() else []


@pytest.fixture(scope="module")
def site() -> Path:
    """The folder of a site that has what the page loads."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    folder = Path(os.environ.get("PMW_SITE", ""))
    if not (folder / "browser/runtime/demo.model").is_file():
        pytest.skip("PMW_SITE names no site with what the page in the browser loads")
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    joined(thread)
    server.server_close()


@pytest.fixture(scope="module")
def browser(site: Path) -> Iterator[Any]:
    with pytest.importorskip("playwright.sync_api").sync_playwright() as driver:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM, args=[*quiet, "--disable-component-update"]
        )
        yield chromium
        chromium.close()


class Visit:
    """One reader at the page, who notes whatever it complains about or asks others for."""

    def __init__(self, browser: Any, address: str) -> None:
        self.context = browser.new_context(viewport={"width": 1400, "height": 900})
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.complaints, self.hosts, self.address = list[str](), set[str](), address
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.context.on("request", lambda request: self.hosts.add("/".join(request.url.split("/")[:3])))
        self.page.goto(f"{address}/browser.html")

    def open_demonstration(self) -> None:
        self.page.get_by_role("button", name="Open the demonstration's model").click()
        self.page.get_by_label(BOX).wait_for()

    def ask(self, question: str) -> str:
        self.page.get_by_label(BOX).fill(question)
        self.page.get_by_label(BOX).press("Control+Enter")
        self.page.get_by_text("Answering …").wait_for(state="hidden")
        return str(self.page.locator("#browser-answer").inner_html())

    def error(self) -> str:
        return str(self.page.get_by_role("alert").inner_text())

    def end(self) -> None:
        assert not self.complaints
        assert self.hosts == {self.address}
        self.context.close()


@pytest.fixture(scope="module")
def visit(browser: Any, address: str) -> Iterator[Visit]:
    reader = Visit(browser, address)
    reader.open_demonstration()
    yield reader
    reader.end()


@pytest.mark.parametrize("question", STATEMENTS)
def test_the_page_answers_as_the_command_does(visit: Visit, site: Path, question: str) -> None:
    model = load_model(site / "browser/runtime/demo.model")
    here = model.sql(question) if question.startswith("SELECT") else model.ask(question)
    assert Cells(visit.ask(question)).texts == Cells(here._repr_html_()).texts


def test_a_refused_question_is_told_with_its_place_and_the_next_is_answered(visit: Visit) -> None:
    assert not visit.ask("agee > 30")
    assert visit.error().endswith("agee > 30\n^")
    assert visit.ask("age > 30")
    assert not visit.page.get_by_role("alert").is_visible()


def test_a_file_of_ones_own_is_opened_and_what_is_no_model_is_refused(visit: Visit, model_file: Path) -> None:
    chosen = visit.page.get_by_label("or a model file of your own:")
    chosen.set_input_files(files=[{"name": "no.model", "mimeType": "", "buffer": b"nonsense"}])
    visit.page.get_by_role("alert").wait_for()
    assert visit.error() == "the file is no model, or it is damaged"
    chosen.set_input_files(model_file)
    visit.page.get_by_role("heading", name="Ask clinic.model").wait_for()
    assert "onerror" in visit.ask(visit.page.get_by_label(BOX).input_value())
    assert visit.page.locator("#browser-answer img").count() == 0
    visit.open_demonstration()
    visit.page.get_by_role("heading", name="Ask the demonstration's model").wait_for()


def test_nothing_is_asked_or_typed_while_a_question_waits(visit: Visit) -> None:
    sent, is_fixed, answer = visit.page.evaluate(
        """async () => {
            const part = (name) => document.getElementById(`browser-${name}`);
            const real = Worker.prototype.postMessage;
            let sent = 0;
            Worker.prototype.postMessage = function (...given) { sent += 1; real.apply(this, given); };
            const press = (question) => {
                part("question").value = question;
                part("question").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true }));
            };
            press("SELECT age, COUNT(*) FROM fertility GROUP BY age");
            const isFixed = part("question").readOnly;
            press("age > 30");
            while (part("demo").disabled) await new Promise((resolve) => setTimeout(resolve, 20));
            Worker.prototype.postMessage = real;
            return [sent, isFixed, part("answer").innerHTML];
        }"""
    )
    assert (sent, is_fixed) == (1, True)
    assert "<table" in answer
    assert visit.ask("age > 30").startswith("<p>About ")


def test_a_question_after_a_broken_worker_is_answered_from_the_same_model(browser: Any, address: str) -> None:
    reader = Visit(browser, address)
    reader.page.evaluate(
        """() => {
            const Real = Worker;
            window.Worker = class extends Real {
                constructor(...given) { super(...given); window.newest = this; }
            };
        }"""
    )
    reader.open_demonstration()
    expected = reader.ask("age > 30")
    reader.page.evaluate("() => { newest.postMessage = () => newest.onerror(); }")
    assert not reader.ask("age > 30")
    assert reader.error() == "Python cannot run in this browser."
    assert reader.ask("age > 30") == expected
    assert not reader.page.get_by_role("alert").is_visible()
    reader.end()


def test_a_site_without_what_the_page_loads_offers_nothing_and_says_so(browser: Any, address: str) -> None:
    reader = Visit(browser, address)
    reader.context.route("**/runtime/**", lambda route: route.fulfill(status=404))
    reader.page.reload()
    reader.page.get_by_text("nothing can be opened").wait_for()
    assert reader.page.get_by_role("button", name="Open the demonstration's model").count() == 0
    assert not reader.page.locator("#browser-file").is_visible()
    reader.context.close()
