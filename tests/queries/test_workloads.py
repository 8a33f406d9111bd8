"""Workloads: families of questions against brute force, sizes and names, and what is refused."""

from __future__ import annotations

import decimal
import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    DomainError,
    Histogram,
    IntegerAttribute,
    NumericAttribute,
    QueryError,
    ScopeError,
    Workload,
    all_marginals,
    all_ranges,
    marginal_cells,
    parities,
    parse_workload,
    popular_conjunctions,
    prefixes,
    random_conjunctions,
)
from queries.workloads import (
    LARGEST_PARITY,
    MOST_DISTINCT,
    zipf_weights,
)
from tests.queries.meaning import DOMAINS, full_weights, histograms, refusal


def _ordered(domain: Domain) -> list[str]:
    return [a.name for a in domain if not isinstance(a, CategoricalAttribute)]


def _wide(count: int, size: int) -> Domain:
    return Domain(tuple(IntegerAttribute(f"a{number}", 1, size) for number in range(count)))


@given(data=st.data(), histogram=histograms())
def test_the_cells_of_a_marginal_partition_the_records(data: st.DataObject, histogram: Histogram) -> None:
    domain = histogram.domain
    order = data.draw(st.integers(1, len(domain)))
    queries = iter(all_marginals(domain, order))
    for scope in combinations(domain.names, order):
        cells = list(islice(queries, domain.scope_size(scope)))
        answers = [cell.answer(histogram) for cell in cells]
        assert answers == [UNITS * count for count in histogram.project(scope).counts.reshape(-1).tolist()]
        assert sum(answers) == UNITS * histogram.total
        assert np.all(sum(full_weights(cell) for cell in cells) == UNITS)
        assert [query.key() for query in marginal_cells(domain, scope)] == [cell.key() for cell in cells]
    assert next(queries, None) is None


@given(histogram=histograms(DOMAINS.filter(_ordered)))
def test_ranges_and_prefixes_are_the_sums_of_their_base_cells(histogram: Histogram) -> None:
    domain = histogram.domain
    for name in _ordered(domain):
        size, counts = domain[name].base_size, histogram.project((name,)).counts
        expected = [
            UNITS * int(counts[low : high + 1].sum()) for low in range(size) for high in range(low, size)
        ]
        assert [query.answer(histogram) for query in all_ranges(domain, name)] == expected
        assert [query.answer(histogram) for query in prefixes(domain, name)] == expected[:size]


@given(data=st.data(), histogram=histograms())
def test_a_parity_counts_the_records_whose_cell_numbers_have_an_odd_sum(
    data: st.DataObject, histogram: Histogram
) -> None:
    domain = histogram.domain
    order = data.draw(st.integers(1, len(domain)))
    scopes = list(combinations(range(len(domain)), order))
    for scope, query in zip(scopes, parities(domain, order), strict=True):
        odd = sum(
            int(histogram.counts[cells])
            for cells in product(*map(range, domain.shape))
            if sum(cells[axis] for axis in scope) % 2
        )
        assert query.answer(histogram) == UNITS * odd


def test_a_parity_that_would_not_fit_is_refused_with_the_limit() -> None:
    assert LARGEST_PARITY == 65_536
    for domain, order in ((_wide(2, 256), 2), (_wide(16, 2), 16)):
        assert domain.size == LARGEST_PARITY
        assert len(next(iter(parities(domain, order))).to_json()) < 10**6
    with pytest.raises(ScopeError, match="2 attributes would span up to 66,049 cells, at most 65,536"):
        parities(_wide(3, 257), 2)
    with pytest.raises(ScopeError, match="up to 1 × 10¹⁵⁰ cells, at most 65,536 fit; choose a lower order"):
        parities(_wide(100, 1000), 50)


@pytest.mark.parametrize("some", [3, 2**13])
def test_boxes_are_the_queries_of_a_family(some: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queries.workloads._SOME", some)
    domain = Domain(
        (
            IntegerAttribute("n", 0, 9, 2, missing=True),
            NumericAttribute("x", (0, 1, 2), other=True),
            CategoricalAttribute("c", ("u", "v")),
        )
    )
    named = [all_marginals(domain, 1), all_marginals(domain, 2), marginal_cells(domain, domain.names)]
    named += [family(domain, name) for name in _ordered(domain) for family in (all_ranges, prefixes)]
    for workload in named:
        assert workload.boxes is not None
        walked = list(workload.boxes())
        assert max(map(len, walked)) <= some
        queries = list(workload)
        boxes = [one.query(place) for one in walked for place in range(len(one))]
        assert [one.key() for one in boxes] == [one.key() for one in queries]
        assert [words for one in walked for words in one.describe()] == [one.describe() for one in queries]


# --- what is no domain, name or number ----------------------------------------------------------------------

FAMILIES: list[Callable[..., object]] = [
    lambda domain, _: all_marginals(domain, 1), all_ranges,
    lambda domain, name: marginal_cells(domain, [name]), lambda domain, _: parities(domain, 1),
    lambda domain, _: popular_conjunctions(domain, 1, seed=1, distinct=1), prefixes,
    lambda domain, _: random_conjunctions(domain, 1, seed=1),
    lambda domain, _: parse_workload("marginals:1", domain),
]  # fmt: skip
A_NAME = "expected an attribute of 'people', got a .*{}$"
A_NUMBER = "as a whole number, got a .*{}$"
A_FRACTION = "expected exponent as a number, got a "
# What comes in place of a name, a number or a text, and how it is refused.
REFUSED: list[tuple[Callable[[Domain, Any], object], type[Exception], str]] = [
    (all_ranges, ScopeError, A_NAME),
    (lambda people, thing: marginal_cells(people, [thing]), ScopeError, A_NAME),
    (prefixes, ScopeError, A_NAME),
    (marginal_cells, ScopeError, "expected a list of attributes' names, got a "),
    (all_marginals, ScopeError, A_NUMBER),
    (parities, ScopeError, A_NUMBER),
    (lambda people, thing: random_conjunctions(people, thing, seed=1), ScopeError, A_NUMBER),
    (lambda people, thing: random_conjunctions(people, 1, seed=thing), ScopeError, A_NUMBER),
    (lambda people, thing: popular_conjunctions(people, 1, seed=1, distinct=thing), ScopeError, A_NUMBER),
    (lambda people, thing: popular_conjunctions(people, 1, seed=thing), ScopeError, A_NUMBER),
    (lambda people, thing: popular_conjunctions(people, 1, seed=1, exponent=thing), ScopeError, A_FRACTION),
    (lambda people, thing: parse_workload(thing, people), QueryError, "the name of a workload, .*, got a "),
]


def test_what_is_no_domain_name_number_or_text_is_refused_by_its_type(people: Domain) -> None:
    for family in FAMILIES:
        with pytest.raises(DomainError, match=r"expected a Domain, got a numpy\.ndarray"):
            family(np.zeros(3), "age")
    for call, error, message in REFUSED:
        with pytest.raises(error, match=message.format("numpy.ndarray")):
            call(people, np.zeros(3))


# --- random streams -----------------------------------------------------------------------------------------


ADULT_FULL = (
    "age*85 workclass 9 fnlwgt*100 education-num*16 marital-status 7 occupation 15 relationship 6 race 5 "
    "sex 2 capital-gain*100 capital-loss*100 hours-per-week*99 native-country 42 income>50K 2"
)


def _declared(text: str) -> Domain:
    attributes: list[IntegerAttribute | CategoricalAttribute] = []
    words = text.replace("*", " * ").split()
    while words:
        name = words.pop(0)
        if words[0] == "*":
            attributes.append(IntegerAttribute(name, 0, int(words[1]) - 1))
            words = words[2:]
        else:
            attributes.append(CategoricalAttribute(name, tuple(range(int(words.pop(0))))))
    return Domain(tuple(attributes))


def _digest(workload: Workload) -> str:
    digest = hashlib.sha256()
    for query in workload:
        ends = [
            [query.domain.index(name), cells.start, cells.stop - 1]
            for name, cells in zip(query.scope, query.box, strict=True)
        ]
        digest.update(json.dumps(ends, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def test_what_no_family_holds_is_refused(people: Domain) -> None:
    def require(message: str, family: Callable[..., object], *given: Any, **named: Any) -> None:
        with pytest.raises(ScopeError, match=message):
            family(people, *given, **named)

    for order, family in product((0, -1, 8), (all_marginals, parities)):
        require(f"expected order from 1 to 7, got order={order}", family, order)
    require("expected the names of at least one attribute, got none", marginal_cells, [])
    require(r"expected each attribute once, got \['age', 'age'\]", marginal_cells, ["age", "age"])
    require("got 'agee'; did you mean 'age'?", marginal_cells, ["agee"])
    for stream in (random_conjunctions, popular_conjunctions):
        require("expected size from 0 to 9,223,372,036,854,775,807, got size=-1", stream, -1, seed=0)
        require("got size=9223372036854775808", stream, 2**63, seed=0)
        require("more than 30 digits", stream, 10**999, seed=0)
        for most, told in ((0, "from 1 to 1,000, got most_attributes=0"), (1001, "got most_attributes=1001")):
            require(told, stream, 5, seed=0, most_attributes=most)
    for exponent in (-0.001, 10.001, 1.2345, 1e-5, math.nan, math.inf, 10**400):
        told = "an exponent from 0 to 10 with at most 3 decimals, got"
        require(told, popular_conjunctions, 5, seed=0, exponent=exponent)
    for distinct in (0, -1, MOST_DISTINCT + 1, 10**500):
        told = "expected distinct from 1 to 100,000, got distinct="
        require(told, popular_conjunctions, 5, seed=0, distinct=distinct)
    assert popular_conjunctions(people, 5, seed=0, distinct=2, exponent=-0.0).name == "popular:5:0:2:0"


def test_the_random_stream_is_the_published_one() -> None:
    published = "2588d5020d6337496d9171ea313979230f95ec986351dbdf28140e6d88fa33ed"
    assert _digest(random_conjunctions(_declared(ADULT_FULL), 10_000, seed=0)) == published


@pytest.mark.parametrize("power", [0, 1, 2, 3, 10])
def test_zipf_weights_of_whole_exponents_are_rounded_quotients(power: int) -> None:
    expected = [max(1, round(Fraction(2**40, rank**power))) for rank in range(1, 501)]
    assert zipf_weights(500, Decimal(power)) == expected
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP)):  # of the caller
        assert zipf_weights(500, Decimal(power)) == expected


def test_the_popular_stream_is_the_published_one() -> None:
    workload = popular_conjunctions(_declared(ADULT_FULL), 5000, seed=0, distinct=500, exponent=1.1)
    assert _digest(workload) == "eb17dd09bb5595f3490b41233521cd704556a3e86edbcf336a8a1e93d9e72fbe"


def test_a_domain_with_too_few_different_questions_is_named_so() -> None:
    binary = Domain(tuple(CategoricalAttribute(name, (0, 1)) for name in "abc"))
    single = Domain((IntegerAttribute("one", 1, 1), CategoricalAttribute("two", (0, 1))))
    for domain, most in ((binary, 6 + 12 + 8), (single, 3)):  # the only cell makes no new question
        every = popular_conjunctions(domain, 1000, seed=0, distinct=most, exponent=0)
        assert len({query.key() for query in every}) == most
        told = f"got {most} before 1,000 draws in a row brought no other; choose distinct={most} or less"
        with pytest.raises(ScopeError, match=told):
            popular_conjunctions(domain, 1000, seed=0, distinct=most + 1)


# --- workloads by their names -------------------------------------------------------------------------------


_NAMES = st.text(
    st.one_of(st.sampled_from(',:" 0123456789-+.aAß'), st.characters(codec="utf-8")), min_size=1, max_size=6
).filter(lambda name: name == name.strip() and name.isprintable())


# Names that need quotes.
ODD = Domain(
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
    try:
        workload = parse_workload(text, domain)
    except QueryError as error:
        assert (error.text, error.position in range(len(text) + 1)) == (text, True)  # noqa: PT017
    else:
        assert parse_workload(workload.name, domain) == workload


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
def test_a_name_is_read_and_written_in_one_form(text: str, name: str, size: int) -> None:
    workload = parse_workload(text, ODD)
    assert (workload.name, workload.size) == (name, size)


HUGE = [
    ("random:" + "9" * 50_000 + ":1", "too_large"), ("random:" + "0" * 50_000 + "x:1", "bad_request"),
    ('ranges:"' + "a" * 50_000, "syntax"), ("ranges:" + '"' * 50_001, "syntax"),
    ("ranges:" + "a" * 50_000, "unknown_attribute"), ("marginals:" + "," * 20_000, "syntax"),
    ("ranges" + ":" * 20_000, "syntax"), ("ranges:" + " " * 50_000 + '"', "syntax"),
    ("x" * (2**20 + 1), "too_long"),
]  # fmt: skip


def test_a_huge_text_is_refused_quickly_and_in_few_words() -> None:
    start = time.process_time()
    for text, code in HUGE:
        error = refusal(parse_workload, text, ODD)
        assert error.code == code
        assert len(error.message) < 400
    assert time.process_time() - start < 10
