"""Workloads: their sizes, what they cover, and the published stream of random questions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from itertools import combinations, islice
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    ScopeError,
    Workload,
    all_marginals,
    all_ranges,
    random_conjunctions,
)
from queries.workloads import _SplitMix64

LAW = settings(max_examples=60, deadline=None)
Counts: TypeAlias = Callable[[Domain], st.SearchStrategy[Histogram]]
Domains: TypeAlias = st.SearchStrategy[Domain]
FullWeights: TypeAlias = Callable[[LinearQuery], NDArray[np.int64]]

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


@LAW
@given(data=st.data())
def test_a_workload_has_as_many_queries_as_it_says(data: st.DataObject, small_domains: Domains) -> None:
    domain = data.draw(small_domains)
    order = data.draw(st.integers(1, len(domain)))
    name = data.draw(st.sampled_from(domain.names))
    some = data.draw(st.integers(0, 20))
    for workload in (
        all_marginals(domain, order),
        all_ranges(domain, name),
        random_conjunctions(domain, some, seed=3),
    ):
        assert len(list(workload)) == len(workload) == workload.size


@LAW
@given(data=st.data())
def test_a_workload_can_be_walked_again_and_again(data: st.DataObject, small_domains: Domains) -> None:
    domain = data.draw(small_domains)
    workload = data.draw(st.sampled_from([all_marginals(domain, 1), random_conjunctions(domain, 10, seed=3)]))
    first, second = iter(workload), iter(workload)
    assert [query.key() for query in first] == [query.key() for query in second]


@LAW
@given(data=st.data())
def test_the_cells_of_a_marginal_partition_the_records(
    data: st.DataObject, small_domains: Domains, counts_over: Counts, full_weights: FullWeights
) -> None:
    histogram = data.draw(small_domains.flatmap(counts_over))
    domain = histogram.domain
    order = data.draw(st.integers(1, len(domain)))
    queries = iter(all_marginals(domain, order))
    for scope in combinations(domain.names, order):
        cells = list(islice(queries, domain.scope_size(scope)))
        answers = [cell.answer(histogram) for cell in cells]
        assert answers == [UNITS * count for count in histogram.project(scope).counts.reshape(-1).tolist()]
        assert np.all(sum(full_weights(cell) for cell in cells) == UNITS)
    assert next(queries, None) is None


def test_the_marginals_of_every_scope_are_listed_in_declared_order(people: Domain) -> None:
    workload = all_marginals(people, 2)
    assert workload.name == "marginals:2"
    scopes = list(dict.fromkeys(query.scope for query in workload))
    assert scopes == list(combinations(people.names, 2))
    assert workload.size == sum(people.scope_size(scope) for scope in scopes)


def test_a_workload_knows_its_size_without_walking_it() -> None:
    domain = Domain(tuple(IntegerAttribute(f"a{number}", 0, 999) for number in range(8)))
    assert all_marginals(domain, 5).size == math.comb(8, 5) * 10**15
    assert repr(all_marginals(domain, 5)) == f"Workload(name='marginals:5', size={56 * 10**15})"


@pytest.mark.parametrize("order", [0, -1, 8])
def test_marginals_of_an_impossible_order_are_refused(people: Domain, order: int) -> None:
    with pytest.raises(ScopeError, match=f"expected an order between 1 and 7, got order={order}"):
        all_marginals(people, order)


@pytest.mark.parametrize(("attribute", "size"), [("age", 74 * 75 // 2), ("income", 6), ("member", 3)])
def test_all_ranges_are_every_range_of_base_cells(people: Domain, attribute: str, size: int) -> None:
    workload = all_ranges(people, attribute)
    assert (workload.name, workload.size) == (f"ranges:{attribute}", size)
    last = people[attribute].base_size - 1
    assert len({query.key() for query in workload}) == size
    assert all(query.is_box and query.box[0].stop - 1 <= last for query in workload if query.scope)


def test_ranges_of_an_unknown_attribute_are_refused(people: Domain) -> None:
    with pytest.raises(ScopeError, match="did you mean 'age'"):
        all_ranges(people, "agee")


@LAW
@given(data=st.data())
def test_random_conjunctions_are_the_same_for_the_same_seed(
    data: st.DataObject, small_domains: Domains
) -> None:
    domain = data.draw(small_domains)
    seed = data.draw(st.integers(0, 2**70))
    ours = [query.to_dict() for query in random_conjunctions(domain, 20, seed=seed)]
    assert ours == [query.to_dict() for query in random_conjunctions(domain, 20, seed=seed)]
    assert ours[:7] == [query.to_dict() for query in random_conjunctions(domain, 7, seed=seed)]


def test_another_seed_asks_other_questions(people: Domain) -> None:
    streams = [[query.key() for query in random_conjunctions(people, 20, seed=seed)] for seed in range(5)]
    assert len(set(map(tuple, streams))) == 5


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


def test_an_ordered_attribute_of_two_cells_gets_a_single_one() -> None:
    domain = Domain((NumericAttribute("x", (0, 1, 2)), IntegerAttribute("y", 0, 0, missing=True)))
    seen = {
        (name, cells.start, cells.stop)
        for query in random_conjunctions(domain, 100, seed=0)
        for name, cells in zip(query.scope, query.box, strict=True)
    }
    assert seen == {("x", 0, 1), ("x", 1, 2), ("y", 0, 1)}


@pytest.mark.parametrize(("size", "most"), [(-1, 3), (5, 0)])
def test_an_impossible_stream_is_refused(people: Domain, size: int, most: int) -> None:
    with pytest.raises(ScopeError, match=f"got {size} and {most}"):
        random_conjunctions(people, size, seed=0, most_attributes=most)


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423]),
    ],
)
def test_the_generator_is_splitmix64_as_published(seed: int, words: list[int]) -> None:
    generator = _SplitMix64(seed)
    assert [generator.next() for _ in words] == words


@pytest.mark.parametrize(
    ("declaration", "published"),
    [
        (ADULT_SMALL, "8493bad940398364d49063f55e494cd0142d0dd86d28d0b8802f334c8e24aa1c"),
        (ADULT_FULL, "2588d5020d6337496d9171ea313979230f95ec986351dbdf28140e6d88fa33ed"),
    ],
    ids=["small", "full"],
)
def test_the_random_stream_is_the_published_one(declaration: str, published: str) -> None:
    domain = _declared(declaration)
    digest = hashlib.sha256()
    for query in random_conjunctions(domain, 10_000, seed=0):
        ends = [
            [domain.index(name), cells.start, cells.stop - 1]
            for name, cells in zip(query.scope, query.box, strict=True)
        ]
        digest.update(json.dumps(ends, separators=(",", ":")).encode() + b"\n")
    assert digest.hexdigest() == published


def test_workloads_are_equal_where_they_ask_the_same(people: Domain) -> None:
    assert isinstance(all_ranges(people, "age"), Workload)
    assert all_ranges(people, "age") == all_ranges(people, "age")
    assert all_ranges(people, "age") != all_ranges(people, "hours")


def test_streams_over_different_numbers_of_attributes_are_told_apart(people: Domain) -> None:
    one, three = (random_conjunctions(people, 10, seed=0, most_attributes=most) for most in (1, 3))
    assert one.name != three.name
    assert one != three
