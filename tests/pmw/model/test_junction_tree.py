"""Junction trees: what makes them correct, and how small they are where the best is known."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.model.factors import Positions
from pmw.model.junction_tree import JunctionTree, fits_tree, junction_tree


@st.composite
def graphs(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Positions]]:
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=9)))
    places = st.sets(st.integers(0, len(shape) - 1), max_size=3).map(lambda found: tuple(sorted(found)))
    return shape, draw(st.lists(places, max_size=12))


def connected(tree: JunctionTree, cliques: list[int]) -> bool:
    """Tell whether cliques are connected among themselves: all but one have their parent among them."""
    return sum(tree.parents[clique] not in cliques for clique in cliques) == 1


@given(graphs())
def test_every_scope_is_inside_a_clique_and_every_attribute_runs_through_connected_ones(
    graph: tuple[tuple[int, ...], list[Positions]],
) -> None:
    shape, scopes = graph
    tree = junction_tree(shape, scopes)
    for scope in scopes:
        home = tree.covering(scope)
        assert home is not None
        assert set(scope) <= set(tree.cliques[home])
    for position in range(len(shape)):
        holding = [number for number, clique in enumerate(tree.cliques) if position in clique]
        assert connected(tree, holding)
    assert all(parent < number for number, parent in enumerate(tree.parents))
    assert not any(set(first) <= set(second) for first, second in itertools.permutations(tree.cliques, 2))


@given(graphs(), st.data())
def test_a_subtree_is_connected_and_holds_what_is_asked_of_it(
    graph: tuple[tuple[int, ...], list[Positions]], data: st.DataObject
) -> None:
    shape, scopes = graph
    tree = junction_tree(shape, scopes)
    wanted = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    kept = tree.subtree(tuple(sorted(wanted)))
    assert connected(tree, kept)
    assert wanted <= {position for clique in kept for position in tree.cliques[clique]}


@given(graphs())
def test_a_tree_that_grew_is_the_one_made_at_once(graph: tuple[tuple[int, ...], list[Positions]]) -> None:
    shape, scopes = graph
    for count in range(1, len(scopes) + 1):
        before, after = junction_tree(shape, scopes[: count - 1]), junction_tree(shape, scopes[:count])
        if before.covering(scopes[count - 1]) is not None:
            assert after == before
    assert junction_tree(shape, [*scopes, *scopes]) == junction_tree(shape, scopes)


@pytest.mark.parametrize(
    ("shape", "scopes", "cells"),
    [
        ((5, 5, 5), [], 15),
        ((10, 10, 10, 10), [(0, 1), (1, 2), (2, 3)], 300),
        ((10, 10, 10, 10), [(0, 1), (1, 2), (2, 3), (0, 3)], 2000),
        ((2, 10, 2, 10), [(0, 1), (1, 2), (2, 3), (0, 3)], 80),  # cut between the two short ones
        ((3, 4, 5), [(0, 1), (1, 2), (0, 2)], 60),
        ((10,) * 6, [(0, place) for place in range(1, 6)], 500),
    ],
)
def test_small_graphs_have_their_smallest_trees(
    shape: tuple[int, ...], scopes: list[Positions], cells: int
) -> None:
    assert junction_tree(shape, scopes).cells == cells


def test_a_grid_is_cut_by_its_shorter_side() -> None:
    rows, columns = 3, 8
    scopes = [(place, place + columns) for place in range((rows - 1) * columns)]
    scopes += [(place, place + 1) for place in range(rows * columns) if (place + 1) % columns]
    tree = junction_tree((4,) * (rows * columns), scopes)
    assert max(map(len, tree.cliques)) == rows + 1


@given(graphs(), st.sets(st.integers(0, 8), max_size=4), st.integers(0, 3000))
def test_a_scope_fits_just_where_the_tree_grown_by_it_does(
    graph: tuple[tuple[int, ...], list[Positions]], places: set[int], max_cells: int
) -> None:
    shape, scopes = graph
    scope = tuple(sorted(place for place in places if place < len(shape)))
    held = tuple(dict.fromkeys(scopes))
    grown = junction_tree(shape, [*held, scope]).cells
    assert fits_tree(junction_tree(shape, held), held, scope, max_cells) == (grown <= max_cells)
    assert fits_tree(junction_tree(shape, held), held, scope, grown)
