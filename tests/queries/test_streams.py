"""Random streams: the published one, and the one in which questions repeat."""

from __future__ import annotations

import decimal
import hashlib
import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import islice

import mpmath
import numpy as np
import pytest
from scipy import stats

from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    ScopeError,
    Workload,
    popular_conjunctions,
    random_conjunctions,
)
from queries.workloads import MOST_DISTINCT, SplitMix64, zipf_weights

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


def test_an_ordered_attribute_of_two_cells_gets_a_single_one() -> None:
    domain = Domain((NumericAttribute("x", (0, 1, 2)), IntegerAttribute("y", 0, 0, missing=True)))
    seen = {
        (name, cells.start, cells.stop)
        for query in random_conjunctions(domain, 100, seed=0)
        for name, cells in zip(query.scope, query.box, strict=True)
    }
    assert seen == {("x", 0, 1), ("x", 1, 2), ("y", 0, 1)}


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


def test_a_stream_without_end_is_walked_one_question_at_a_time(people: Domain) -> None:
    for workload in (
        random_conjunctions(people, 2**63 - 1, seed=1),
        popular_conjunctions(people, 2**63 - 1, seed=1, distinct=10),
    ):
        assert len(workload) == 2**63 - 1
        assert len(list(islice(workload, 5))) == 5


def test_a_seed_counts_modulo_2_to_the_64(people: Domain) -> None:
    assert random_conjunctions(people, 5, seed=2**64 + 3).name == "random:5:3"
    assert random_conjunctions(people, 5, seed=-1).name == f"random:5:{2**64 - 1}"
    one, other = (popular_conjunctions(people, 5, seed=seed, distinct=9) for seed in (3, 2**64 + 3))
    assert one == other
    assert [query.key() for query in one] == [query.key() for query in other]


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423]),
    ],
)
def test_the_generator_is_splitmix64_as_published(seed: int, words: list[int]) -> None:
    generator = SplitMix64(seed)
    assert [generator.next() for _ in words] == words


def test_the_random_stream_is_the_published_one() -> None:
    published = "2588d5020d6337496d9171ea313979230f95ec986351dbdf28140e6d88fa33ed"
    assert _digest(random_conjunctions(_declared(ADULT_FULL), 10_000, seed=0)) == published


def test_streams_of_other_seeds_or_numbers_of_attributes_are_told_apart(people: Domain) -> None:
    streams = [random_conjunctions(people, 20, seed=seed) for seed in range(5)]
    streams.append(random_conjunctions(people, 20, seed=0, most_attributes=1))
    assert len({workload.name for workload in streams}) == 6
    assert len({tuple(query.key() for query in workload) for workload in streams}) == 6


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


def test_a_shorter_popular_stream_is_the_start_of_a_longer_one(people: Domain) -> None:
    long, short = (
        [query.key() for query in popular_conjunctions(people, size, seed=7, distinct=20)] for size in (40, 9)
    )
    assert long[:9] == short


def test_another_seed_or_exponent_or_number_makes_another_popular_stream(people: Domain) -> None:
    workloads = [
        popular_conjunctions(
            people, 50, seed=seed, distinct=distinct, exponent=exponent, most_attributes=most
        )
        for seed, distinct, exponent, most in [
            (1, 30, 1.0, 3), (2, 30, 1.0, 3), (1, 31, 1.0, 3), (1, 30, 2.5, 3), (1, 30, 1.0, 2),
        ]
    ]  # fmt: skip
    assert len({workload.name for workload in workloads}) == 5
    assert len({tuple(query.key() for query in workload) for workload in workloads}) == 5


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


def test_zipf_weights_of_a_half_are_rounded_roots() -> None:
    with mpmath.workdps(60):
        roots = [int(mpmath.nint(mpmath.mpf(2) ** 40 / mpmath.sqrt(rank))) for rank in range(1, 501)]
    assert zipf_weights(500, Decimal("0.5")) == roots


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
