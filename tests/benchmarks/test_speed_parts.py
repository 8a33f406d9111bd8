"""Parts of an answer: each form has a rate, and its shares add up; no time is asserted."""

from __future__ import annotations

import numpy as np

from benchmarks.speed_parts import measured
from benchmarks.tables import Case
from queries import CategoricalAttribute, CodedRecords, Domain, IntegerAttribute, random_conjunctions


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
