"""Speed: a line for each point, a figure for each curve, and shares of each form; no time is."""

from __future__ import annotations

import numpy as np

from benchmarks import speed
from benchmarks.speed import measured
from benchmarks.tables import Case
from queries import (
    CategoricalAttribute,
    CodedRecords,
    Domain,
    IntegerAttribute,
    parse_where,
    random_conjunctions,
)


def test_new_questions_are_different_and_none_of_those_before() -> None:
    domain = Domain(
        (IntegerAttribute("a", 0, 3, missing=True), CategoricalAttribute("b", ("x", "y", "z"))), "made up"
    )
    before = list(random_conjunctions(domain, 20, seed=1))
    new = speed.never_asked(domain, 30, seed=2, asked=before)
    texts = {query.to_json() for query in new}
    assert len(texts) == len(new) == 30
    assert not texts & {query.to_json() for query in before}
    assert {query.scope for query in new} == {("a", "b")}
    for query in new:  # a line asks what the object does
        read = parse_where(speed.structured(query, domain), domain)
        assert read.to_json() == query.to_json()
    # In its 10,000 draws each question comes: the rarest, one in 96, a hundred times.
    assert len(speed.never_asked(domain, 200, seed=3)) == (4 * 5 // 2) * (2**3 - 2)


def test_each_form_has_a_rate_and_shares() -> None:
    ordered = tuple(IntegerAttribute(name, 0, 9) for name in "abc")
    domain = Domain((*ordered, CategoricalAttribute("d", ("x", "y"))))
    generator = np.random.default_rng(1)
    columns = tuple(generator.integers(0, attribute.size, 500).astype(np.uint8) for attribute in domain)
    case = Case("made up", CodedRecords(domain, columns), tuple(random_conjunctions(domain, 50, seed=1)))
    lines = list(measured(case, ("a", "b"), questions=20, ranges=100))
    assert [line["what"] for line in lines] == [
        "query objects",
        "structured conditions",
        "arrays of ranges",
        "query objects to the public model",
    ]
    for line in lines:
        assert line["answers_per_s"] > 0
        assert "questions" in line["shares"]
        assert abs(sum(line["shares"].values()) - 1) < 0.01
