"""Workloads by their names: every name parses back, and every refusal says what was expected."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    QueryError,
    Workload,
    all_marginals,
    all_ranges,
    marginal_cells,
    parse_workload,
    prefixes,
    random_conjunctions,
)
from queries.workloads import WORKLOAD_FORMS
from tests.queries.meaning import DOMAINS, refusal

_NAMES = st.text(
    st.one_of(st.sampled_from(',:" 0123456789-+.aAß'), st.characters(codec="utf-8")), min_size=1, max_size=6
).filter(lambda name: name == name.strip() and name.isprintable())


@pytest.fixture(scope="module")
def odd() -> Domain:
    """Return a domain whose names need quotes."""
    return Domain(
        (
            IntegerAttribute("age", 17, 90),
            CategoricalAttribute("sex", ("Female", "Male")),
            IntegerAttribute('a,b:"c', 0, 9),
            IntegerAttribute("2", 0, 3),
            IntegerAttribute("Hours per week", 0, 9),
        )
    )


@st.composite
def _workloads(draw: st.DrawFn, domain: Domain) -> Workload:
    order = draw(st.integers(1, len(domain)))
    name = draw(st.sampled_from(domain.names))
    ordered = not isinstance(domain[name], CategoricalAttribute)
    seed, size = draw(st.integers(-(2**66), 2**66)), draw(st.integers(0, 2**63 - 1))
    most = draw(st.integers(1, 1000))
    makers: list[Callable[[], Workload]] = [
        lambda: all_marginals(domain, order),
        lambda: marginal_cells(domain, domain.names[:order]),
        lambda: marginal_cells(domain, [name]),
        lambda: random_conjunctions(domain, size, seed=seed, most_attributes=most),
        *([lambda: all_ranges(domain, name), lambda: prefixes(domain, name)] if ordered else []),
    ]
    return draw(st.sampled_from(makers))()


@given(data=st.data(), plain=DOMAINS)
def test_the_name_of_every_workload_parses_back_to_it(data: st.DataObject, plain: Domain) -> None:
    names = data.draw(st.lists(_NAMES, min_size=len(plain), max_size=len(plain), unique=True))
    pairs = zip(plain, names, strict=True)
    domain = Domain(tuple(replace(attribute, name=name) for attribute, name in pairs))
    workload = data.draw(_workloads(domain))
    parsed = parse_workload(workload.name, domain)
    assert parsed == workload
    assert (parsed.name, parsed.size) == (workload.name, workload.size)
    assert [q.key() for q in islice(parsed, 5)] == [q.key() for q in islice(workload, 5)]


@given(text=st.one_of(st.text(max_size=40), st.from_regex(r'(?s)[a-z]*:["a-c,:0-9. ]*', fullmatch=True)))
def test_any_other_text_is_refused_as_a_question_and_nothing_else(text: str) -> None:
    domain = Domain((IntegerAttribute("a", 0, 3), CategoricalAttribute("b", (1, 2))))
    refusal = None
    try:
        workload = parse_workload(text, domain)
    except QueryError as error:
        refusal = error
    if refusal is None:
        assert parse_workload(workload.name, domain) == workload
    else:
        assert refusal.text == text
        assert isinstance(refusal.position, int)
        assert 0 <= refusal.position <= len(text)


@pytest.mark.parametrize(
    ("text", "name", "size"),
    [
        ("marginals:1", "marginals:1", 74 + 2 + 10 + 4 + 10), ("marginals:02", "marginals:2", 2152),
        ("marginals:sex,age", "marginals:age,sex", 148),
        (" marginals : AGE , sex ", "marginals:age,sex", 148), ('marginals:"2"', 'marginals:"2"', 4),
        ("marginals:sex,2", 'marginals:sex,"2"', 8),
        ('marginals: "a,b:""c" ,age', 'marginals:age,"a,b:""c"', 740), ("prefixes:age", "prefixes:age", 74),
        ("prefixes:hours per week", "prefixes:Hours per week", 10),
        ('ranges:"a,b:""c"', 'ranges:"a,b:""c"', 55), ("ranges:2", 'ranges:"2"', 10),
        ("random:1000:7", "random:1000:7", 1000), ("random:1000:7:3", "random:1000:7", 1000),
        ("random:1000:7:2", "random:1000:7:2", 1000),
    ],
)  # fmt: skip
def test_a_name_is_read_and_written_in_one_form(odd: Domain, text: str, name: str, size: int) -> None:
    workload = parse_workload(text, odd)
    assert (workload.name, workload.size) == (name, size)


def test_every_kind_has_a_form_that_begins_with_it() -> None:
    assert list(WORKLOAD_FORMS) == sorted(WORKLOAD_FORMS)
    assert all(form.startswith(f"{kind}:") for kind, form in WORKLOAD_FORMS.items())


KINDS = "expected a workload of the kind marginals, prefixes, random, ranges, such as marginals:2, got "
DECLARED = 'declared are age, sex, a,b:"c, 2, Hours per week'
FORMS = {
    "marginals": "marginals:ORDER or marginals:NAME,NAME,…",
    "prefixes": "prefixes:NAME",
    "random": "random:SIZE:SEED[:MOST_ATTRIBUTES]",
}


def _parts(kind: str, came: str) -> str:
    return f"expected {FORMS[kind]}, got {came} after {kind!r}"


def _whole(label: str, low: int, high: int, came: str) -> str:
    return f"expected {label} as a whole number from {low:,} to {high:,}, got {came!r}"


def _unordered(what: str) -> str:
    return (
        f"attribute 'sex' is categorical and has no order, so it has no {what}; ask marginals:sex for its "
        "values, or declare it as an integer or numeric attribute"
    )


def _unknown(name: str, near: str) -> str:
    return f"unknown attribute {name!r}; {DECLARED}; did you mean {near!r}?"


@pytest.mark.parametrize(
    ("text", "code", "position", "message"),
    [
        ("", "syntax", 0, KINDS + "''"),
        ("margnals:2", "syntax", 0, KINDS + "'margnals'; did you mean 'marginals'?"),
        ("Ranges:age", "syntax", 0, KINDS + "'Ranges'; did you mean 'ranges'?"),
        ("marginals", "syntax", 9, _parts("marginals", "0 parts")),
        ("random:5", "syntax", 8, _parts("random", "1 part")),
        ("random:5:1:2:3", "syntax", 13, _parts("random", "4 parts")),
        (
            "prefixes:age:sex", "syntax", 13,
            _parts("prefixes", "2 parts") + "; a name with a colon stands in double quotes",
        ),
        (
            "prefixes:age,sex", "bad_request", 13,
            "expected one attribute, got 2 with commas between them; "
            "a name with a comma stands in double quotes",
        ),
        (
            "random:1,000:7", "bad_request", 9,
            "expected SIZE as one whole number, got 2 with commas between them; write 1000, not 1,000",
        ),
        ("marginals:", "syntax", 10, f"expected the name of an attribute, got nothing; {DECLARED}"),
        ('ranges:""', "syntax", 7, f"expected the name of an attribute, got nothing; {DECLARED}"),
        ('ranges:"AGE"', "unknown_attribute", 7, _unknown("AGE", "age")),
        ("marginals:age, sax", "unknown_attribute", 15, _unknown("sax", "sex")),
        ("marginals:sex,age,sex", "bad_request", 18, "expected each attribute once, got 'sex' twice"),
        ("ranges:sex", "wrong_kind", 7, _unordered("ranges")),
        ("prefixes: sex", "wrong_kind", 10, _unordered("prefixes")),
        ('ranges:"age', "syntax", 7, "a double quote is not closed; a double quote inside a name is doubled"),
        ('ranges:"age"s', "syntax", 7, "expected ',' or ':' after a name in double quotes"),
        (
            'ranges:a"ge', "syntax", 8,
            "a double quote stands inside a name; put the whole name in double quotes and double it",
        ),
        ("marginals:6", "too_large", 10, _whole("ORDER", 1, 5, "6")),
        ("marginals:0", "bad_request", 10, _whole("ORDER", 1, 5, "0")),
        ("marginals:1.5", "bad_request", 10, _whole("ORDER", 1, 5, "1.5")),
        ("random:9223372036854775808:1", "too_large", 7, _whole("SIZE", 0, 2**63 - 1, "9223372036854775808")),
        ("random:²:1", "bad_request", 7, _whole("SIZE", 0, 2**63 - 1, "²")),
        ('random:"2":1', "bad_request", 7, _whole("SIZE", 0, 2**63 - 1, "2") + " in double quotes"),
        ("random:-1:1", "bad_request", 7, _whole("SIZE", 0, 2**63 - 1, "-1")),
        (
            "random:1:18446744073709551616", "too_large", 9,
            _whole("SEED", 0, 2**64 - 1, "18446744073709551616"),
        ),
        ("random:1:1:0", "bad_request", 11, _whole("MOST_ATTRIBUTES", 1, 1_000, "0")),
    ],
)  # fmt: skip
def test_a_refusal_says_what_was_expected_and_where(
    odd: Domain, text: str, code: str, position: int, message: str
) -> None:
    error = refusal(parse_workload, text, odd)
    assert (error.code, error.position, error.text) == (code, position, text)
    assert error.message == message


def test_a_domain_that_cannot_give_so_many_questions_refuses_them() -> None:
    wide = Domain(tuple(IntegerAttribute(f"a{number}", 1, 1000) for number in range(50)))
    for text in ("marginals:7", "marginals:50"):
        error = refusal(parse_workload, text, wide)
        assert (error.code, error.position) == ("too_large", text.index(":") + 1)


HUGE = [
    ("random:" + "9" * 50_000 + ":1", "too_large"), ("random:" + "0" * 50_000 + "x:1", "bad_request"),
    ('ranges:"' + "a" * 50_000, "syntax"), ("ranges:" + '"' * 50_001, "syntax"),
    ("ranges:" + "a" * 50_000, "unknown_attribute"), ("marginals:" + "," * 20_000, "syntax"),
    ("ranges" + ":" * 20_000, "syntax"), ("ranges:" + " " * 50_000 + '"', "syntax"),
    ("x" * (2**20 + 1), "too_long"),
]  # fmt: skip


def test_a_huge_text_is_refused_quickly_and_in_few_words(odd: Domain) -> None:
    start = time.process_time()
    for text, code in HUGE:
        error = refusal(parse_workload, text, odd)
        assert error.code == code
        assert len(error.message) < 400
    assert time.process_time() - start < 10
