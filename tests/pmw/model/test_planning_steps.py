"""What plans take as attributes become more: steps of Python are counted, not time."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

import pmw
from pmw.data import MemorySource
from pmw.model import calibration, factors, gradient
from pmw.model import junction_tree as trees
from queries import CodedRecords, Domain, IntegerAttribute

_ATTRIBUTES = (25, 50, 100, 200)


def steps_of(work: Callable[[], object]) -> int:
    """Return how many lines and calls of Python a piece of work takes."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, given: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def forget() -> None:
    """Forget all plans."""
    for module in (calibration, factors, gradient, trees):
        for known in vars(module).values():
            if hasattr(known, "cache_clear"):
                known.cache_clear()


def planned(attributes: int) -> None:
    """Make all plans of a model with a term for each attribute, and pairs that share none."""
    shape = tuple(2 + number % 5 for number in range(attributes))
    singles = tuple((number,) for number in range(attributes))
    pairs = tuple((number, number + 1) for number in range(0, 20, 2))
    tree = trees.junction_tree(shape, singles + pairs)
    calibration.plan_calibration(tree, singles + pairs)
    gradient.plan_gradient(tree, singles + pairs)


def opened(attributes: int) -> pmw.Session:
    domain = Domain(tuple(IntegerAttribute(f"a{number}", 0, 1) for number in range(attributes)))
    column = (np.arange(1000) % 2).astype(np.uint8)
    source = MemorySource(CodedRecords(domain, (column,) * attributes))
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    return pmw.open_session(source, domain, epsilon=0.01, delta=1e-9, options=options)


def test_no_plan_takes_more_than_pairs_of_attributes() -> None:
    found = []
    for attributes in _ATTRIBUTES:
        forget()
        found.append(steps_of(partial(planned, attributes)))
    for fewer, more in itertools.pairwise(found):
        assert more < 4.6 * fewer  # the third power would be 8


def test_an_answer_takes_steps_in_proportion_to_attributes_at_most() -> None:
    found = []
    for attributes in _ATTRIBUTES:
        with opened(attributes) as session:
            session.ask({"a0": {"eq": 1}, "a1": {"eq": 1}})
            asked = {"a2": {"eq": 1}, "a3": {"eq": 0}}
            version = session.state.version
            found.append(steps_of(partial(session.ask, asked)))
            assert session.state.version == version
    for fewer, more in itertools.pairwise(found):
        assert more < 2.2 * fewer
