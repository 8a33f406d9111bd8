"""Predicates as trees: negations pushed down, comparisons listed, terms grouped."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries.predicates import (
    And,
    Atom,
    Comparison,
    IsMissing,
    IsOther,
    Not,
    Or,
    Predicate,
    atoms_of,
    connected_terms,
    push_negations,
)

Truth: TypeAlias = bool | None

A, B, C, D = (Comparison(name, "eq", 1) for name in "abcd")
ATOMS: st.SearchStrategy[Atom] = st.sampled_from([A, B, C, D, IsMissing("a"), IsOther("b")])
LEAVES: st.SearchStrategy[Predicate] = ATOMS.map(lambda atom: atom)


def _grown(children: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(children, max_size=3).map(tuple)
    return st.one_of(several.map(And), several.map(Or), children.map(Not))


PREDICATES: st.SearchStrategy[Predicate] = st.recursive(LEAVES, _grown, max_leaves=8)
TRUTHS = st.dictionaries(ATOMS, st.sampled_from([True, False, None]))


def _holds(predicate: Predicate, truths: dict[Atom, Truth]) -> Truth:
    """Evaluate in Kleene's three-valued logic, word by word from its truth tables."""
    match predicate:
        case Not(child):
            inner = _holds(child, truths)
            return None if inner is None else not inner
        case And(children):
            found = [_holds(child, truths) for child in children]
            return False if False in found else None if None in found else True
        case Or(children):
            found = [_holds(child, truths) for child in children]
            return True if True in found else None if None in found else False
        case _:
            return truths.get(predicate)


def _negated_inside(predicate: Predicate) -> bool:
    """Return whether some NOT stands above anything but a comparison."""
    if isinstance(predicate, And | Or):
        return any(_negated_inside(child) for child in predicate.children)
    return isinstance(predicate, Not) and isinstance(predicate.child, And | Or | Not)


@given(PREDICATES, TRUTHS, st.booleans())
def test_pushing_negations_keeps_the_truth(
    predicate: Predicate, truths: dict[Atom, Truth], negated: bool
) -> None:
    expected = _holds(Not(predicate) if negated else predicate, truths)
    assert _holds(push_negations(predicate, negated=negated), truths) is expected


@given(PREDICATES, st.booleans())
def test_pushed_negations_stand_at_comparisons_only(predicate: Predicate, negated: bool) -> None:
    pushed = push_negations(predicate, negated=negated)
    assert not _negated_inside(pushed)
    assert list(atoms_of(pushed)) == list(atoms_of(predicate))


@pytest.mark.parametrize(
    ("predicate", "pushed"),
    [
        (Not(And((A, B))), Or((Not(A), Not(B)))),
        (Not(Or((A, Not(B)))), And((Not(A), B))),
        (And((A, And((B, C)), Not(Or((D, A))))), And((A, B, C, Not(D), Not(A)))),
        (Or((A, And((B, C)), Or((D,)))), Or((A, And((B, C)), D))),
        (Not(Not(A)), A),
        (Not(And(())), Or(())),
    ],
)
def test_nested_joins_become_flat(predicate: Predicate, pushed: Predicate) -> None:
    assert push_negations(predicate, negated=False) == pushed


def test_comparisons_are_listed_from_left_to_right() -> None:
    assert list(atoms_of(Or((And((A, B)), Not(C), D)))) == [A, B, C, D]
    assert list(atoms_of(And(()))) == []


@pytest.mark.parametrize(
    ("terms", "groups"),
    [
        ([A, B, C], [[A], [B], [C]]),
        ([A, B, A], [[B], [A, A]]),
        ([A, B, Or((A, B))], [[A, B, Or((A, B))]]),
        ([Or((A, B)), Or((C, D)), Or((B, C))], [[Or((A, B)), Or((C, D)), Or((B, C))]]),
        ([], []),
    ],
)
def test_terms_that_share_an_attribute_stand_in_one_group(
    terms: list[Predicate], groups: list[list[Predicate]]
) -> None:
    found = connected_terms(terms)
    assert sorted(sorted(map(repr, group)) for group in found) == sorted(
        sorted(map(repr, group)) for group in groups
    )


@given(st.lists(PREDICATES, max_size=6))
def test_groups_hold_every_term_once_and_share_no_attribute(terms: list[Predicate]) -> None:
    groups = connected_terms(terms)
    assert sorted(repr(term) for group in groups for term in group) == sorted(map(repr, terms))
    names = [{atom.attribute for term in group for atom in atoms_of(term)} for group in groups]
    assert sum(map(len, names)) == len(set().union(*names))
