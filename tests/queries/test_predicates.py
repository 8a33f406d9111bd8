"""Predicates as trees: their truth, negations pushed down, comparisons listed, terms grouped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries.comparisons import Comparison, Junction, Not, Predicate, connected_terms
from tests.queries.meaning import Known, holds, trees

A, B, C, D = (Comparison(name, "eq", (1,)) for name in "abcd")
COMPARISONS = [A, B, C, D, Comparison("a", "missing"), Comparison("b", "other")]
PREDICATES = trees(st.sampled_from(COMPARISONS), least=0, leaves=8)
TRUTHS = st.fixed_dictionaries({one: st.sampled_from([True, False, None]) for one in COMPARISONS})


def both(*terms: Predicate) -> Predicate:
    return Junction("and", terms)


def either(*terms: Predicate) -> Predicate:
    return Junction("or", terms)


def _negated_inside(predicate: Predicate) -> bool:
    """Return whether some NOT stands above anything but a comparison."""
    match predicate:
        case Junction(_, children):
            return any(map(_negated_inside, children))
        case Not(child):
            return not isinstance(child, Comparison)
    return False


@given(PREDICATES, TRUTHS, st.booleans())
def test_truth_is_kleenes_and_stays_when_negations_are_pushed_to_comparisons(
    predicate: Predicate, truths: dict[Comparison, Known], negated: bool
) -> None:
    def where(one: Comparison, is_false: bool) -> NDArray[np.bool_]:
        return np.array(truths[one] is (not is_false))

    expected = holds(Not(predicate) if negated else predicate, truths.get)
    assert bool(predicate.holds(where, negated=negated)) == (expected is True)
    assert bool(predicate.holds(where, negated=not negated)) == (expected is False)
    pushed = predicate.pushed(negated=negated)
    assert holds(pushed, truths.get) is expected
    assert not _negated_inside(pushed)
    assert list(pushed.comparisons()) == list(predicate.comparisons())


@pytest.mark.parametrize(
    ("predicate", "pushed"),
    [
        (Not(both(A, B)), either(Not(A), Not(B))),
        (Not(either(A, Not(B))), both(Not(A), B)),
        (both(A, both(B, C), Not(either(D, A))), both(A, B, C, Not(D), Not(A))),
        (either(A, both(B, C), either(D)), either(A, both(B, C), D)),
        (Not(Not(A)), A),
        (Not(both()), either()),
    ],
)
def test_nested_joins_become_flat(predicate: Predicate, pushed: Predicate) -> None:
    assert predicate.pushed() == pushed


def test_comparisons_are_listed_from_left_to_right() -> None:
    assert list(either(both(A, B), Not(C), D).comparisons()) == [A, B, C, D]


@given(st.lists(PREDICATES, max_size=6))
def test_groups_hold_every_term_once_and_share_no_attribute(terms: list[Predicate]) -> None:
    groups = connected_terms(terms)
    assert sorted(repr(term) for group in groups for term in group) == sorted(map(repr, terms))
    names = [{one.attribute for term in group for one in term.comparisons()} for group in groups]
    assert sum(map(len, names)) == len(set().union(*names))


def test_terms_without_a_common_attribute_stand_apart() -> None:
    assert sorted(map(len, connected_terms([A, B, A, either(C, D)]))) == [1, 1, 2]
    chained = [either(A, B), either(C, D), either(B, C)]
    assert [sorted(map(repr, group)) for group in connected_terms(chained)] == [sorted(map(repr, chained))]
