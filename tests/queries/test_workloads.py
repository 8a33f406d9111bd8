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
from itertools import combinations, islice, product, repeat
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    DomainError,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    QueryError,
    ScopeError,
    Workload,
    all_marginals,
    all_ranges,
    marginal_cells,
    parities,
    parse_where,
    parse_workload,
    popular_conjunctions,
    prefixes,
    random_conjunctions,
)
from queries.cells import number_text
from queries.workloads import (
    LARGEST_PARITY,
    MOST_DISTINCT,
    MOST_QUERIES,
    zipf_weights,
)
from tests.queries.meaning import DOMAINS, full_weights, histograms, refusal


def _ordered(domain: Domain) -> list[str]:
    return [a.name for a in domain if not isinstance(a, CategoricalAttribute)]


def _wide(count: int, size: int) -> Domain:
    return Domain(tuple(IntegerAttribute(f"a{number}", 1, size) for number in range(count)))


@given(data=st.data(), domain=DOMAINS)
def test_a_family_has_as_many_queries_as_it_says(data: st.DataObject, domain: Domain) -> None:
    order = data.draw(st.integers(1, len(domain)))
    workloads = [all_marginals(domain, order), parities(domain, order), marginal_cells(domain, domain.names)]
    for name in _ordered(domain):
        workloads += [all_ranges(domain, name), prefixes(domain, name)]
    for workload in workloads:
        walked = [query.key() for query in workload]
        assert len(walked) == len(workload) == workload.size
        assert walked == [query.key() for query in workload]


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


def test_more_queries_than_can_be_counted_are_refused() -> None:
    domain = _wide(200, 1000)
    with pytest.raises(ScopeError, match=r"marginals:9 would have \(more than 30 digits\); name fewer"):
        all_marginals(domain, 9)
    with pytest.raises(ScopeError, match=r"a0,a1,a2,a3,a4,a5,a6 would have 10{21}; name fewer"):
        marginal_cells(domain, domain.names[:7])


def test_an_impossible_order_or_marginal_is_refused(people: Domain) -> None:
    for family in (all_marginals, parities):
        for order in (0, -1, 8):
            with pytest.raises(ScopeError, match=f"expected order from 1 to 7, got order={order}"):
                family(people, order)
    refused: list[tuple[list[str], str]] = [
        ([], "expected the names of at least one attribute, got none"),
        (["age", "age"], r"expected each attribute once, got \['age', 'age'\]"),
        (["agee"], "got 'agee'; did you mean 'age'?"),
    ]
    for names, message in refused:
        with pytest.raises(ScopeError, match=message):
            marginal_cells(people, names)


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


@given(domain=DOMAINS.filter(_ordered))
def test_a_prefix_is_the_comparison_with_the_end_of_its_cell(domain: Domain) -> None:
    for attribute in domain:
        if isinstance(attribute, CategoricalAttribute):
            continue
        queries = list(prefixes(domain, attribute.name))
        for query, end in zip(queries, attribute.boundaries[1:], strict=True):
            if isinstance(attribute, IntegerAttribute):
                text = f"{attribute.name} <= {int(end) - 1}"
            else:
                text = f"{attribute.name} {'<=' if query is queries[-1] else '<'} {number_text(end)}"
            assert query.key() == parse_where(text, domain).key()


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


# --- workloads ----------------------------------------------------------------------------------------------


def _repeated(domain: Domain, size: int) -> Workload:
    return Workload("same", size, lambda: repeat(LinearQuery.everything(domain), size))


def test_a_workload_is_as_long_as_len_can_say(people: Domain) -> None:
    assert len(_repeated(people, MOST_QUERIES)) == 2**63 - 1
    told = r"0 to 9,223,372,036,854,775,807 queries, same would have 922.*808;"
    for size, message in ((MOST_QUERIES + 1, told), (-1, "would have -1; name fewer attributes")):
        with pytest.raises(ScopeError, match=message):
            _repeated(people, size)


# --- what is no domain, name or number ----------------------------------------------------------------------

FAMILIES: list[Callable[..., object]] = [
    lambda domain, _: all_marginals(domain, 1), all_ranges,
    lambda domain, name: marginal_cells(domain, [name]), lambda domain, _: parities(domain, 1),
    lambda domain, _: popular_conjunctions(domain, 1, seed=1, distinct=1), prefixes,
    lambda domain, _: random_conjunctions(domain, 1, seed=1),
    lambda domain, _: parse_workload("marginals:1", domain),
]  # fmt: skip
MARK = "MARK-7f3a"


class Telling:
    """What tells its mark wherever it is asked."""

    def tell(self, *_: object) -> Any:
        raise ValueError(MARK)

    __repr__ = __str__ = __hash__ = __eq__ = __getitem__ = __len__ = __iter__ = __index__ = __getattr__ = tell


# Made in the tests, for even a list of parameters asks them for a name.
THINGS: dict[str, Callable[[], object]] = {
    "numpy.ndarray": lambda: np.zeros(3), "NoneType": lambda: None, "dict": lambda: {MARK: 1},
    "bytes": MARK.encode, "Telling": Telling,
}  # fmt: skip


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


@pytest.mark.parametrize("kind", THINGS)
def test_what_is_no_domain_name_number_or_text_is_refused_by_its_type(people: Domain, kind: str) -> None:
    def refused(error: type[Exception], message: str, call: Callable[..., object], *given: object) -> None:
        with pytest.raises(error, match=message.format(kind)) as caught:
            call(*given)
        assert MARK not in str(caught.value)

    for family in FAMILIES:
        refused(DomainError, "expected a Domain, got a .*{}", family, THINGS[kind](), "age")
    for call, error, message in REFUSED:
        refused(error, message, call, people, THINGS[kind]())


# --- random streams -----------------------------------------------------------------------------------------


# (name, cells) per attribute; a star marks an ordered one.
ADULT_SMALL = "age*17 edu*16 mar 7 race 5 sex 2 hours*10 inc 2"
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


@pytest.mark.parametrize("most", [1, 2, 3, 7, 50])
def test_random_conjunctions_are_boxes_over_at_most_the_attributes_asked(people: Domain, most: int) -> None:
    counted = set()
    for query in random_conjunctions(people, 300, seed=1, most_attributes=most):
        assert query.is_box
        counted.add(len(query.scope))
        for name, cells in zip(query.scope, query.box, strict=True):
            attribute = people[name]
            assert 0 <= cells.start < cells.stop <= attribute.base_size
            length = cells.stop - cells.start
            single = isinstance(attribute, CategoricalAttribute)
            assert length == 1 if single else length < attribute.base_size
    assert counted == set(range(1, min(most, 7) + 1))


@pytest.mark.parametrize("stream", [random_conjunctions, popular_conjunctions])
@pytest.mark.parametrize(
    ("size", "most", "message"),
    [
        (-1, 3, "expected size from 0 to 9,223,372,036,854,775,807, got size=-1"),
        (2**63, 3, "got size=9223372036854775808"),
        (10**999, 3, "more than 30 digits"),
        (5, 0, "expected most_attributes from 1 to 1,000, got most_attributes=0"),
        (5, 1001, "got most_attributes=1001"),
    ],
)
def test_an_impossible_stream_is_refused(
    people: Domain, stream: Callable[..., Workload], size: int, most: int, message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        stream(people, size, seed=0, most_attributes=most)


def test_a_seed_counts_modulo_2_to_the_64(people: Domain) -> None:
    assert random_conjunctions(people, 5, seed=2**64 + 3).name == "random:5:3"
    assert random_conjunctions(people, 5, seed=-1).name == f"random:5:{2**64 - 1}"
    one, other = (popular_conjunctions(people, 5, seed=seed, distinct=9) for seed in (3, 2**64 + 3))
    assert one == other
    assert [query.key() for query in one] == [query.key() for query in other]


def test_the_random_stream_is_the_published_one() -> None:
    published = "2588d5020d6337496d9171ea313979230f95ec986351dbdf28140e6d88fa33ed"
    assert _digest(random_conjunctions(_declared(ADULT_FULL), 10_000, seed=0)) == published


def _ranks(workload: Workload, pool: list[bytes]) -> list[int]:
    ranks = {key: rank for rank, key in enumerate(pool)}
    return [ranks[query.key()] for query in workload]


def _different(domain: Domain, distinct: int, seed: int, most: int = 3) -> list[bytes]:
    """Return the keys of the first different questions of the random stream, by another way."""
    keys: dict[bytes, None] = {}
    for query in random_conjunctions(domain, 10**6, seed=seed, most_attributes=most):
        keys.setdefault(query.key())
        if len(keys) == distinct:
            return list(keys)
    raise AssertionError("the domain has too few questions for this test")


def test_a_popular_stream_repeats_the_first_different_random_questions(people: Domain) -> None:
    pool = _different(people, 50, seed=7)
    workload = popular_conjunctions(people, 2000, seed=7, distinct=50)
    assert (workload.name, len(workload)) == ("popular:2000:7:50:1", 2000)
    assert set(_ranks(workload, pool)) == set(range(50))


@pytest.mark.statistical
@pytest.mark.parametrize("exponent", [0.8, 1.5])
def test_popularity_follows_zipf_and_no_other_exponent(exponent: float) -> None:
    domain = _declared(ADULT_SMALL)
    pool = _different(domain, 40, seed=5)
    size = 5000
    workload = popular_conjunctions(domain, size, seed=5, distinct=40, exponent=exponent)
    seen = np.bincount(_ranks(workload, pool), minlength=40)

    def p_value(supposed: float) -> float:
        shares = np.arange(1, 41, dtype=np.float64) ** -supposed
        return float(stats.chisquare(seen, size * shares / shares.sum()).pvalue)

    assert p_value(exponent) > 1e-4
    for wrong in (0.7 * exponent, 1.3 * exponent):
        assert p_value(wrong) < 1e-9


@pytest.mark.parametrize("power", [0, 1, 2, 3, 10])
def test_zipf_weights_of_whole_exponents_are_rounded_quotients(power: int) -> None:
    expected = [max(1, round(Fraction(2**40, rank**power))) for rank in range(1, 501)]
    assert zipf_weights(500, Decimal(power)) == expected
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP)):  # of the caller
        assert zipf_weights(500, Decimal(power)) == expected


def test_the_popular_stream_is_the_published_one() -> None:
    workload = popular_conjunctions(_declared(ADULT_FULL), 5000, seed=0, distinct=500, exponent=1.1)
    assert _digest(workload) == "eb17dd09bb5595f3490b41233521cd704556a3e86edbcf336a8a1e93d9e72fbe"


def test_an_exponent_or_a_number_of_questions_out_of_range_is_refused(people: Domain) -> None:
    for exponent in (-0.001, 10.001, 1.2345, 1e-5, math.nan, math.inf, 10**400):
        with pytest.raises(ScopeError, match="an exponent from 0 to 10 with at most 3 decimals, got"):
            popular_conjunctions(people, 5, seed=0, exponent=exponent)
    for distinct in (0, -1, MOST_DISTINCT + 1, 10**500):
        with pytest.raises(ScopeError, match="expected distinct from 1 to 100,000, got distinct="):
            popular_conjunctions(people, 5, seed=0, distinct=distinct)
    assert popular_conjunctions(people, 5, seed=0, distinct=2, exponent=-0.0).name == "popular:5:0:2:0"


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
