"""Rows: what is drawn from the model."""

from __future__ import annotations

import pytest

import pmw
from pmw.errors import ReleaseError
from pmw.public.export import RowPlan


def test_rows_keep_the_models_one_way_marginals(session: pmw.Session) -> None:
    rows = session.synthetic_records(20_000, seed=1)
    model = session.state.model.marginal(("sex",))
    shares = rows["sex"].value_counts(normalize=True)
    assert shares["Female"] == pytest.approx(model[0] / model.sum(), abs=1e-3)


def test_values_come_back_as_declared(session: pmw.Session) -> None:
    rows = session.synthetic_records(5000, seed=1)
    assert rows["age"].dtype.kind == "i"
    assert rows["member"].dtype == bool
    assert set(rows["region"].dropna()) <= {"north", "east", "south", "west", "(other)"}


def test_the_same_seed_draws_the_same_rows_and_no_seed_draws_anew(session: pmw.Session) -> None:
    one, two = session.synthetic_records(500, seed=3), session.synthetic_records(500, seed=3)
    assert one.equals(two)
    assert not session.synthetic_records(500).equals(session.synthetic_records(500))


@pytest.mark.parametrize(("rows", "seed"), [(-1, None), (10**9, None), (5, -2)])
def test_an_impossible_drawing_is_refused(rows: int, seed: int | None) -> None:
    with pytest.raises(ReleaseError, match="expected"):
        RowPlan(rows, seed=seed)
