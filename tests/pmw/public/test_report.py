"""Reports: one page of public facts, well formed and harmless whatever the names in it, for every session."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.display.texts import number, percent
from pmw.errors import ReleaseError
from pmw.privacy.budget import NeighboringRelation
from pmw.public.bars import Bars
from pmw.public.contract import Contract
from pmw.public.report import (
    about_whom,
    best_guess,
    promise,
    quality,
    quotable_tables,
    registry_form,
    registry_text,
    report_page,
    single_half_width,
    total_widths,
)
from pmw.session.loading import load_facts
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, random_conjunctions
from queries.person import Person
from tests.worlds import WIDE, World, ends, known

VOID = {"meta", "br", "hr", "img", "link", "input"}
ISOLATES = re.compile("[\u2068\u2069]")


class Page(HTMLParser):
    """A page that is read strictly: every element is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", ISOLATES.sub("", data)))

    @property
    def words(self) -> str:
        return "\n".join(text for tag, text in self.texts if tag != "style")


def svgs(text: str) -> list[ET.Element]:
    """Return the pictures of a page, read as XML."""
    return [ET.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]  # noqa: S314  # ours


def written(session: pmw.Session, folder: Path) -> str:
    session.report(folder / "report.html", force=True)
    return (folder / "report.html").read_text(encoding="utf-8")


def check(text: str, table: str, promised: str) -> Page:
    """Check what holds of every report, and return the page."""
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert tags.count("h1") == tags.count("main") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    harmless(page, text)
    for tag, attributes in page.tags:
        if tag == "th":
            assert attributes["scope"] in ("col", "row")
    pictures = svgs(text)
    assert len(pictures) >= 2
    for picture in pictures:
        assert picture.get("role") == "img"
        title, description, headline, *_ = picture
        assert (title.tag, description.tag, headline.tag) == ("title", "desc", "text")
        assert ISOLATES.sub("", headline.text or "") == f"{table}, {promised}"
        assert (title.text or "").startswith(headline.text or "?")
        assert len(description.text or "") > 40
        for part in picture.iter():
            for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"):
                assert math.isfinite(float(part.get(name, "0")))
                assert float(part.get(name, "0")) >= 0
    return page


def harmless(page: Page, text: str) -> None:
    """Check that a page loads nothing and runs nothing, and that its policy says so."""
    known = {
        "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "dl", "div", "dt",
        "dd", "main", "section", "ul", "li", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure",
        "svg", "desc", "text", "rect", "line", "circle", "polyline", "footer",
    }  # fmt: skip
    assert {tag for tag, _ in page.tags} <= known
    names = {name for _, attributes in page.tags for name in attributes}
    assert not names & {"src", "href", "style", "srcset", "xlink:href", "action", "data"}
    assert not {name for name in names if name.startswith("on")}
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert not re.search(r"url\(|@import|http", style)
    (policy,) = [one["content"] for tag, one in page.tags if tag == "meta" and one.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "@page{size:A4" in style
    assert "prefers-color-scheme:dark" in style


@pytest.fixture(scope="module")
def session(shared_frame: pd.DataFrame, domain: Domain) -> Iterator[pmw.Session]:
    with pmw.open_session(shared_frame, domain, epsilon=1, delta=1e-9) as session:
        session.ask_all(list(random_conjunctions(domain, 80, seed=2)))
        yield session


def test_a_report_says_what_the_status_the_ledger_and_the_error_bars_say(
    session: pmw.Session, domain: Domain, tmp_path: Path
) -> None:
    asked = {query.key(): query for query in random_conjunctions(domain, 80, seed=2)}.values()
    reaches: dict[tuple[str, ...], list[float]] = {}
    for query in asked:
        answer = session.ask(query)  # stored
        low, high = ends(answer)
        reaches.setdefault(query.scope, []).append(max(answer.count - low, high - answer.count))
    text = written(session, tmp_path)
    page = check(text, "people", "epsilon = 1, delta = 1e-09")
    assert report_page(load_facts(session._open_store(), session.state)) == text  # of public facts alone
    status, ledger = session.status(), session.ledger()
    assert f"{status.guarantee}." in page.words
    assert ledger.sentence() in page.words
    assert [text for tag, text in page.texts if tag == "dd"] == [
        "epsilon 1, delta 1e-09", f"about {status.total:,.0f}", "4", f"{status.queries_answered}",
        percent(status.budget_share), "open",
    ]  # fmt: skip
    cells = [text for tag, text in page.texts if tag == "td"]
    for line in ledger.lines:
        assert line.label in cells
        assert f"{line.running_share:.2%}" in cells
    scope, most = max(reaches.items(), key=lambda item: len(item[1]))
    half, nine = (number(sorted(most)[math.ceil(part * len(most)) - 1]) for part in (0.5, 0.9))
    place = page.words.index("The attributes that most questions were about")
    assert f"{', '.join(scope)}\n{len(most)}\n{half}\n{nine}\n" in page.words[place:]


def test_a_quoted_error_is_that_of_an_answer(shared_frame: pd.DataFrame, domain: Domain) -> None:
    wide = Domain((*domain.attributes, IntegerAttribute("income", 0, 999)), name="people")
    frame = shared_frame.assign(income=np.arange(3000) % 1000)
    options = pmw.Options(opening=pmw.Opening.ONE_WAY)
    with pmw.open_session(frame, wide, epsilon=2, delta=1e-9, options=options) as session:
        session.measure(("sex", "member"))
        tables = {one.scope: one for one in quotable_tables(session.state)}
        assert list(tables) == [*((name,) for name in wide.names), ("sex", "member")]
        everybody, one, both = session.ask_all(["", "region = 'north'", "sex = 'Male' AND member = FALSE"])
        for answer, quoted in (
            (everybody, total_widths(session.state)[0]),
            (one, tables["region",].widths[0]),
            (both, tables["sex", "member"].widths[1]),
        ):
            assert (ends(answer)[1] - ends(answer)[0]) / 2 == pytest.approx(quoted, abs=0.01)
        assert not tables["sex", "member"].opened
        assert [tables[scope].cells for scope in (("income",), ("sex", "member"))] == [1000, 4]
        assert tables["income",].widths[0] < tables["income",].widths[1]  # a tree


NAMES = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b </td></table>", "'; DROP TABLE",
    "\u05e9\u05dc <b>", "]]>", "x{{y", "</style><svg onload=x>", "&lt;i&gt;", "{x} %s \\",
]  # fmt: skip


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    values = (*NAMES, "\u202ebackwards", "a\0b", "\x1b[31m")
    attributes = [CategoricalAttribute(f"{name} {k}", values) for k, name in enumerate(NAMES[:3])]
    attributes += [CategoricalAttribute(name, ("a", "b")) for name in NAMES[3:]]
    domain = Domain(tuple(attributes), name=NAMES[1])
    generator = np.random.default_rng(3)
    columns = {one.name: generator.choice(list(one.values), 500) for one in attributes}
    with pmw.open_session(pd.DataFrame(columns), domain, epsilon=1, delta=1e-9) as session:
        session.ask_all(list(random_conjunctions(domain, 30, seed=4)))
        text = written(session, tmp_path)
    page = check(text, NAMES[1], "epsilon = 1, delta = 1e-09")
    for name in domain.names:
        assert name in ISOLATES.sub("", page.words)
    for name in ("<script", "<img", "<b>", "<i>", "<svg onload"):
        assert name not in text
    assert "&amp;lt;i&amp;gt;" in text
    assert text.count("\u2068") == text.count("\u2069")


CHOICES: list[tuple[str, dict[str, Any], float]] = [
    ("delta 0", {}, 0),
    ("replace one", {"neighboring_relation": pmw.NeighboringRelation.REPLACE_ONE}, 1e-9),
    ("single questions", {"test": pmw.TestKind.QUERY}, 1e-9),
    ("simultaneous", {"simultaneous": True}, 1e-9),
    ("accuracy", {"accuracy": 0.05, "records": 3000}, 1e-9),
    ("nothing opened", {"opening": pmw.Opening.NONE}, 1e-9),
    ("confidence", {"confidence": 0.99}, 1e-9),
    ("textbook", {}, 0),
    ("seeded", {"seed": 4}, 1e-9),
    ("persons", {"person_column": "who", "records_per_person": 2}, 1e-9),
]


@pytest.mark.parametrize(("name", "chosen", "delta"), CHOICES, ids=[one[0] for one in CHOICES])
def test_every_kind_of_session_has_a_report(
    shared_frame: pd.DataFrame,
    domain: Domain,
    tmp_path: Path,
    name: str,
    chosen: dict[str, Any],
    delta: float,
) -> None:
    options = pmw.Options.textbook(update_limit=3) if name == "textbook" else pmw.Options(**chosen)
    promised = f"epsilon = 2{', delta = 1e-09' if delta else ''}"
    promised = "SEEDED NOISE: no privacy" if name == "seeded" else promised
    shared_frame = shared_frame.assign(who=np.arange(3000) // 3)
    if name == "replace one":  # no record may be dropped
        domain = replace(domain, attributes=tuple(replace(one, missing=True, other=True) for one in domain))
    with pmw.open_session(shared_frame, domain, epsilon=2, delta=delta, options=options) as session:
        nothing = check(written(session, tmp_path), "people", promised).words
        assert "No question was asked yet" in nothing
        session.ask_all(list(random_conjunctions(session.domain, 20, seed=2)))
        session.ask("")
        asked = check(written(session, tmp_path), "people", promised).words
        session.finalize()
        closed = check(written(session, tmp_path), "people", promised).words
    assert "No question was asked yet" not in asked
    assert "The session is closed" in closed
    assert ("At most 2 records of each were kept" in asked) == (name == "persons")
    assert ("Nothing is promised" in asked) == (name == "seeded")
    for text in (nothing, asked, closed):
        assert "nan" not in re.findall(r"[a-z]+", text)
        assert ("Agreed at opening: each count within 150 records" in text) == (name == "accuracy")
        assert ("The number of records is exact" in text) == (name == "replace one")
        assert ("All error bars of this session hold together" in text) == (name == "simultaneous")
        assert ("± at 95%" in text) == (name != "confidence")
        assert ("No table of counts was measured" in text) <= (name in ("textbook", "nothing opened"))
    if name in ("single questions", "textbook"):
        count, width = single_half_width(session.state)
        assert count == session.state.version
        assert (f"within ± {number(width)} records" in asked) == (count > 0)


def entry(frame: pd.DataFrame, domain: Domain, delta: float, **options: Any) -> dict[str, Any]:
    """Return a session's entry; in YAML 1.1, too, its numbers are numbers, with a point and a sign."""
    with pmw.open_session(frame, domain, epsilon=2, delta=delta, options=pmw.Options(**options)) as session:
        form = registry_form(session.state, session.ledger())
        text = registry_text(session.state, session.ledger())
    assert json.loads(text) == form
    assert re.findall(r'"delta": (.*)', text) == ([re.sub("^1e", "1.0e", str(delta))] if delta else [])
    deployment: dict[str, Any] = form["deployment"]
    return deployment


def test_an_entry_says_what_the_contract_says(shared_frame: pd.DataFrame, domain: Domain) -> None:
    assert entry(shared_frame, domain, 0.001)["privacy_loss"]["privacy_parameters"]["delta"] == 0.001
    form = entry(shared_frame, domain, 1e-9, records_per_person=3)
    assert form["dp_variant"]["variant_name"] == "Approximate DP"
    assert all(name in form["dp_variant"]["data_domain"] for name in domain.names)
    loss = form["privacy_loss"]
    assert (loss["privacy_unit"], loss["number_of_privacy_units"]) == ("Person", 1)
    assert loss["privacy_parameters"] == {"epsilon": 2.0, "delta": 1e-9}
    assert loss["privacy_unit_details"] == (
        "Neighbouring tables differ by adding or removing all of one person's records (at most 3 records)"
    )
    assert "number of records" not in form["dp_variant"]["unprotected_quantities"]
    whole = replace(domain, attributes=tuple(replace(one, missing=True, other=True) for one in domain))
    pure = entry(shared_frame, whole, 0, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    assert pure["dp_variant"]["variant_name"] == "Pure DP"
    assert pure["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0}
    assert "The number of records is exact." in pure["dp_variant"]["unprotected_quantities"]
    assert "discrete Laplace noise" in pure["implementation"]["mechanisms"]
    with pytest.raises(ReleaseError, match="promises nothing that could be registered"):
        entry(shared_frame, domain, 1e-9, seed=1)
    model = form["deployment_model"]
    assert (model["model_name"], model["release_type"], model["access_type"]) == (
        "Central", "Many releases", "Interactive",
    )  # fmt: skip


def test_the_widest_pair_comes_first_and_what_is_not_listed_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.public.report._MOST_PAIRS", 4)
    monkeypatch.setattr("pmw.public.report._MOST_TABLES", 4)
    with WIDE.opened(seed=1, opening="pairs") as session:
        state, words = session.state, Page(written(session, tmp_path)).words
    found = quality(state)
    assert [(row[1], row[-1]) for row in found["by_attribute"]] == [("6", "5")] * 6
    for row in found["by_pair"]:
        one, other = re.findall(r"\b[a-f]\b", row[0])
        width = known(Bars(state).half_width(LinearQuery.cells(WIDE.domain, {one: (3, 3), other: (3, 3)})))
        assert float(row[2]) == pytest.approx(width, rel=0.05)
        assert float(row[3].rstrip("%")) == pytest.approx(100 * width / state.total.value, rel=0.05)
    widths = [float(row[2]) for row in found["by_pair"]]
    assert widths == sorted(widths, reverse=True)
    assert (len(widths), found["more_pairs"]) == (4, "11 more pairs")
    assert "Expected errors, by pair of attributes, the widest first" in words
    assert "15 of 15 pairs of attributes are held" in words
    assert "Pairs that were not" not in words
    with WIDE.opened(seed=1) as session:
        words = " ".join(Page(written(session, tmp_path)).words.split())
    named = "a and b; a and c; a and d; a and e"
    assert f"Pairs that were not: {named}; 11 more pairs, which the manifest of an export lists;" in words


AGES = World(
    Domain((IntegerAttribute("age", 0, 99), *WIDE.domain.attributes)),
    WIDE.frame.assign(age=np.random.default_rng(2).integers(0, 100, len(WIDE.frame))),
)
TWO = World(Domain(WIDE.domain.attributes[:2]), WIDE.frame[["a", "b"]])


@pytest.mark.parametrize(
    ("world", "choices", "lacks"),
    [
        (WIDE, {"opening": "one-way", "delta": 0, "epsilon": 1}, "how attributes of 15 pairs go together"),
        (WIDE, {}, "It finds nothing of more attributes together than counts of 2 attributes"),
        (WIDE, {}, "Groups of fewer than "),
        (WIDE, {"epsilon": 0.01}, "an error is as large as a mean count there"),
        (AGES, {"epsilon": 0.5}, "Values inside a group of neighbouring values"),
        (TWO, {}, None),
    ],
)
def test_what_a_model_lacks_is_named(world: World, choices: dict[str, Any], lacks: str | None) -> None:
    found = quality(world.state(**{"opening": "pairs", "seed": 1, **choices}))["lacks"]
    if lacks is not None:
        assert any(lacks in one for one in found)
    else:  # it was measured whole
        assert not any("It finds nothing" in one or "It does not learn" in one for one in found)


def test_long_attributes_and_many_attributes_are_shown_in_part(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    towns = [f"t{k}" for k in range(30)]
    flags = {f"flag {k}": generator.random(2000) < 0.3 for k in range(6)}
    income, town = (
        IntegerAttribute("income", 0, 999, missing=True),
        CategoricalAttribute("town", tuple(towns)),
    )
    domain = Domain((income, town, *(CategoricalAttribute(one, (True, False)) for one in flags)), "people")
    columns = {"income": generator.integers(0, 1000, 2000), "town": generator.choice(towns, 2000)}
    with pmw.open_session(pd.DataFrame({**columns, **flags}), domain, epsilon=4, delta=1e-9) as session:
        session.measure(("income", "flag 0"))
        text = written(session, tmp_path)
        page = check(text, "people", "epsilon = 4, delta = 1e-09")
        (one,) = [table for table in quotable_tables(session.state) if table.scope == ("income", "flag 0")]
    assert one.binned
    for words in (
        f"{one.cells:,} groups of values",
        "The first 6 of 8 attributes are shown",
        "income (1,001 values, 8 to a column), % of all records",
        "town (10 of 30 values, the most frequent), % of all records",
    ):
        assert words in page.words
    assert len(svgs(text)[0].findall("rect")) == 126 + 1  # and the sample in its legend


@pytest.mark.parametrize(
    ("epsilon", "factor", "guess"),
    [
        ("0.1", "1.11", "52.5%"),
        ("1", "2.72", "73.2%"),
        ("10", "22,027", "99.9955%"),
        ("100", "2.7e+43", "100%"),
    ],
)
def test_a_promise_is_told_as_what_somebody_may_learn(epsilon: str, factor: str, guess: str) -> None:
    domain = Domain((CategoricalAttribute("sex", ("f", "m")),), "t", person=Person("id", 1, empty="person"))
    contract = Contract(domain, pmw.Budget.of(epsilon), pmw.Options(person_column="id"))
    ratio, learned, *_ = promise(contract)
    assert f"more than {factor} times as likely" in ratio
    assert f"right at most {guess} of the time" in learned
    assert about_whom(contract).endswith("A record without an id counts as a person of its own.")
    e, d = float(epsilon), 0.01
    delta = replace(contract, budget=pmw.Budget.of(epsilon, d))
    # Outcomes "surely in" and "surely out" with delta each, and randomised response otherwise.
    assert best_guess(delta) == pytest.approx(d + (1 - d) * math.exp(e) / (1 + math.exp(e)))
