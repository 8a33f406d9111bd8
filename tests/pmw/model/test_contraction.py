"""Contractions against sums of written products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.model import gradient
from pmw.model.factors import Positions, project, spread
from pmw.model.gradient import Program, bind_sums, plan_contraction

SHAPE = (3, 1, 4, 2, 5)
AXES = tuple(range(5))
PLACES = st.sets(st.sampled_from(AXES)).map(lambda found: tuple(sorted(found)))


@pytest.mark.parametrize("written", [0.0, 1.5, 10**9])
@given(left=PLACES, right=PLACES, kept=PLACES, seed=st.integers(0, 9))
def test_a_bound_contraction_is_the_product_summed_whichever_way_it_is_computed(
    written: float, left: Positions, right: Positions, kept: Positions, seed: int
) -> None:
    result = tuple(sorted({*kept}.intersection({*left, *right})))
    generator = np.random.default_rng(seed)
    tables = [np.zeros([SHAPE[place] for place in scope]) for scope in (left, right)]
    program: Program = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient, "_WRITTEN", written)
        plan_contraction.cache_clear()
        held = plan_contraction(SHAPE, left, right, result).bind(tables[0], tables[1], program)
    plan_contraction.cache_clear()
    assert held.flags.c_contiguous
    for _ in range(2):  # what was bound once is run again on other numbers
        for table in tables:
            table[...] = generator.normal(size=table.shape)
        for call in program:
            call()
        union = tuple(sorted({*left, *right}))
        product = spread(tables[0], left, union) * spread(tables[1], right, union)
        assert held == pytest.approx(project(np.asarray(product, order="C"), union, result), abs=1e-12)


@given(PLACES)
def test_bound_sums_are_bit_for_bit_the_sums(kept: Positions) -> None:
    table = np.zeros(SHAPE)
    program: Program = []
    held = bind_sums(table, AXES, kept, program)
    table[...] = np.random.default_rng(1).normal(size=SHAPE)
    for call in program:
        call()
    assert np.array_equal(held, project(table, AXES, kept))
