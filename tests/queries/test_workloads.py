"""Workloads: families of questions against brute force, sizes and names, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, islice, product, repeat
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
from queries.workloads import LARGEST_PARITY, MOST_QUERIES
from tests.queries.meaning import DOMAINS, full_weights, histograms


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


def test_a_workload_knows_its_size_without_walking_it() -> None:
    domain, binary = _wide(8, 1000), _wide(200, 2)
    assert repr(all_marginals(domain, 5)) == f"Workload(name='marginals:5', size={56 * 10**15})"
    assert marginal_cells(domain, ["a0", "a3"]).size == 10**6
    assert all_marginals(binary, 8).size == math.comb(200, 8) * 2**8
    assert len(parities(binary, 10)) == math.comb(200, 10)
    for workload, order in ((all_marginals(binary, 8), 8), (parities(binary, 10), 10)):
        assert next(iter(workload)).scope == binary.names[:order]


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


def test_a_marginal_names_its_attributes_in_declared_order(people: Domain) -> None:
    workload = marginal_cells(people, ["sex", "age"])
    assert workload == marginal_cells(people, ("age", "sex"))
    assert (workload.name, workload.size) == ("marginals:age,sex", 75 * 3)
    alone = marginal_cells(people, "sex")
    assert (alone.name, alone) == ("marginals:sex", marginal_cells(people, ["sex"]))
    assert [query.describe() for query in alone] == ["sex Female", "sex Male", "sex (other)"]


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


def test_an_attribute_without_order_has_neither_ranges_nor_prefixes(people: Domain) -> None:
    for family, what in ((all_ranges, "ranges"), (prefixes, "prefixes")):
        with pytest.raises(
            ScopeError, match=f"'sex' is categorical and has no order, so it has no {what}; ask"
        ):
            family(people, "sex")
        with pytest.raises(ScopeError, match="did you mean 'age'"):
            family(people, "agee")


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


def test_ranges_of_numbers_with_their_own_cells_are_no_boxes() -> None:
    domain = Domain((NumericAttribute("x", (0.0, 1.0, 2.0), atoms=(1.0,)),))
    assert all_ranges(domain, "x").boxes is None
    assert prefixes(domain, "x").boxes is None
    assert all_marginals(domain, 1).boxes is not None


# --- workloads ----------------------------------------------------------------------------------------------


def _repeated(domain: Domain, size: int) -> Workload:
    return Workload("same", size, lambda: repeat(LinearQuery.everything(domain), size))


def test_two_walks_do_not_disturb_each_other(people: Domain) -> None:
    workload = all_ranges(people, "income")
    first = iter(workload)
    next(first)
    assert len(list(workload)) == 6
    assert len(list(first)) == 5


def test_workloads_are_equal_where_they_ask_the_same(people: Domain) -> None:
    assert all_ranges(people, "age") == all_ranges(people, "age")
    assert hash(all_ranges(people, "age")) == hash(all_ranges(people, "age"))
    assert all_ranges(people, "age") != all_ranges(people, "hours")
    assert _repeated(people, 3) != _repeated(people, 4)


def test_a_workload_is_as_long_as_len_can_say(people: Domain) -> None:
    assert len(_repeated(people, MOST_QUERIES)) == 2**63 - 1
    told = r"0 to 9,223,372,036,854,775,807 queries, same would have 922.*808;"
    for size, message in ((MOST_QUERIES + 1, told), (-1, "would have -1; name fewer attributes")):
        with pytest.raises(ScopeError, match=message):
            _repeated(people, size)


def test_a_workload_over_an_attribute_of_one_cell_asks_for_everybody() -> None:
    domain = Domain((IntegerAttribute("x", 5, 5),))
    assert [query.describe() for query in all_ranges(domain, "x")] == ["everybody"]


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


def test_a_long_name_is_cut_in_a_message(people: Domain) -> None:
    for call in (all_ranges, prefixes, lambda people, name: marginal_cells(people, [name])):
        with pytest.raises(ScopeError, match=r"expected an attribute of 'people', got 'a+…'$"):
            call(people, "a" * 5000)
    for text in ("{}:1", "marginals:{}", "prefixes:{}", "random:{}:1"):
        with pytest.raises(QueryError) as caught:
            parse_workload(text.format("a" * 5000), people)
        assert len(str(caught.value)) < 300
