"""The plans of a session against its contract."""

from __future__ import annotations

from pmw.noise_scales import l1_sensitivity, query_sensitivity
from pmw.policy import Contract, MarginalTestPlan, Opening, OpeningPlan, Options, TestKind, TestPlan
from pmw.privacy import Composition, NeighboringRelation
from pmw.sparse_vector import NoiseKind, Sech2Test, Sides, Sparse
from pmw.verification.report import require, same

__all__ = [
    "plans_fit",
]


def plans_fit(contract: Contract, opening: OpeningPlan, test: TestPlan | None) -> str:
    """Check that plans are such as the contract asks for, and return its guarantee.

    Raises:
        SessionCorruptError: they are not.
    """
    options = contract.options
    _opening_fits(contract, opening)
    if test is not None:
        marginal = isinstance(test, MarginalTestPlan)
        same("what is tested", options.test, TestKind.MARGINAL if marginal else TestKind.QUERY)
        if options.update_limit is not None:
            same("positives", options.update_limit, test.update_limit)
    if isinstance(test, MarginalTestPlan):
        _tests_fit(test.sparse, options, l1_sensitivity(options), Sides.ONE_SIDED)
        require(not test.sparse.test.monotone, "distances of marginals move both ways between neighbours")
    queries = test.queries if isinstance(test, MarginalTestPlan) else test
    if queries is not None:
        _tests_fit(queries.vector.sparse, options, query_sensitivity(options), options.chosen_sides)
        require(
            not queries.vector.sparse.test.monotone or options.signs_agree,
            "tests count on all counts moving the same way",
        )
    return f"epsilon {float(contract.budget.epsilon):g}, delta {float(contract.budget.delta):g}"


def _opening_fits(contract: Contract, opening: OpeningPlan) -> None:
    options = contract.options
    bought = list(contract.domain.names) if options.opening is Opening.ONE_WAY else []
    if opening.table_noise is not None:
        require(
            bool(bought) and options.test is TestKind.MARGINAL,
            "the whole table is bought only where one-way marginals would be, and marginals are tested",
        )
        bought = []
    same("marginals planned", bought, list(opening.marginal_noise))
    for name, tree in opening.trees.items():
        attribute = contract.domain[name]
        same(f"cells of the tree of {name}", (attribute.base_size, attribute.size), (tree.cells, tree.size))
    public_total = options.neighboring_relation is NeighboringRelation.REPLACE_ONE
    require(
        (opening.total_noise is None) == public_total,
        "the number of records is public under replace-one, and only there",
    )


def _tests_fit(sparse: Sparse, options: Options, sensitivity: int, sides: Sides) -> None:
    test, kind = sparse.test, options.chosen_sparse_vector(options.composition or Composition.PURE)
    same("sensitivity of tests", sensitivity, test.sensitivity)
    same("sides of tests", sides, test.sides)
    same("whether tests are of sech^2", kind.is_sech2, isinstance(test, Sech2Test))
    same("whether their noise is Laplace noise", kind.is_laplace, test.noise is NoiseKind.LAPLACE)
    same("rounds of tests", kind.redraw, sparse.redraw)
