"""Marginals in place of numbers: three attributes that are measured when somebody first asks about them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.errors import PriceError
from pmw.public.answer import Source
from pmw.public.clear import FULL, clear_half_width
from pmw.public.foundations import strategy_of
from queries import Domain, IntegerAttribute, LinearQuery
from tests import worlds
from tests.pmw.session.test_reserve import NUMBERS, WIDE, bought, opened
from tests.pmw.session.test_rows import DOMAIN, width

TRIPLE = ("sex", "region", "smoker")
ASKED = "sex = 'f' AND region = 'n' AND smoker = 'yes'"
GROUPS = "SELECT sex, region, smoker, COUNT(*) AS n FROM people GROUP BY sex, region, smoker"
PRICE = NUMBERS / (2 * FULL)  # of a number, as a part of the budget


def triples(session: pmw.Session) -> list[tuple[str, ...]]:
    return [one.scope for one in session.state.marginals if len(one.scope) == 3]


@pytest.mark.parametrize("seed", range(4))
def test_the_first_question_buys_the_marginal_whatever_is_drawn_and_all_others_are_free(seed: int) -> None:
    with opened(seed=seed) as session:
        first = session.ask(ASKED)
        line = session.ledger().lines[-1]
        assert triples(session) == [TRIPLE]
        assert (line.event, line.label) == ("requested", ", ".join(TRIPLE))
        assert first.spent.charged == pytest.approx(line.share) == pytest.approx(2 * PRICE, rel=1e-6)
        spent = session.state.ledger.spent
        ends = [range(DOMAIN[name].size) for name in TRIPLE]
        for low in itertools.product(*ends):
            query = LinearQuery.cells(DOMAIN, {name: (0, end) for name, end in zip(TRIPLE, low, strict=True)})
            answer = session.ask(query)
            assert width(answer) <= clear_half_width(session.state)
            assert answer.source is Source.SYNTHETIC
        assert session.state.ledger.spent == spent
        assert not bought(session)
        assert session.verify().holds


def test_groups_by_three_attributes_buy_it_and_four_or_a_bin_that_is_cut_do_not() -> None:
    with opened() as session:
        table = session.sql(GROUPS)
        assert table.spent.charged == pytest.approx(2 * PRICE, rel=1e-6)
        assert triples(session) == [TRIPLE]
        assert session.sql(GROUPS).spent.charged == 0
        assert session.ask(WIDE).spent.charged == pytest.approx(PRICE, rel=1e-2)
        for where in (f"{ASKED} AND rooms > 2", "age BETWEEN 13 AND 27 AND sex = 'f' AND region = 'n'"):
            assert session.ask(where).spent.charged in (0, pytest.approx(PRICE, rel=1e-2))
        assert triples(session) == [TRIPLE]


@pytest.mark.parametrize("asked", [ASKED, GROUPS])
def test_what_may_be_charged_for_a_number_alone_buys_the_number(asked: str) -> None:
    with opened() as session:
        ask = session.sql if asked is GROUPS else session.ask
        with pytest.raises(PriceError):
            ask(asked, at_most=PRICE / 2)
        assert ask(asked, at_most=1.9 * PRICE).spent.charged == pytest.approx(PRICE, rel=1e-6)
        assert not triples(session)
        assert len(bought(session)) == 1


def test_one_of_many_cells_that_leaves_bars_wide_is_not_bought() -> None:
    with grades(16) as session:
        assert strategy_of(session.state, ("a", "b", "c")) is not None
        answer = session.ask("a < 8 AND b < 8 AND c < 8")
        assert not triples(session)
        assert answer.spent.charged == pytest.approx(PRICE, rel=1e-6)


def grades(cells: int, path: Path | None = None) -> pmw.Session:
    domain = Domain(tuple(IntegerAttribute(name, 0, cells - 1) for name in "abcd"), "grades")
    drawn = np.random.default_rng(5).integers(0, cells, (20_000, 4))
    frame = pd.DataFrame(drawn, columns=list("abcd"))
    if path is not None and path.exists():
        return pmw.resume_session(path, frame)
    return worlds.opened(frame, domain, path, epsilon=1, seed=None if path else 3, opening=pmw.Opening.PAIRS)


def test_a_question_that_stays_wide_with_it_gets_a_number() -> None:
    odd = " AND ".join(f"{name} IN (0, 2, 4, 6, 8)" for name in "abc")
    with grades(9) as session:
        answer = session.ask(odd)
        assert answer.spent.charged == pytest.approx(PRICE, rel=1e-6)
        assert width(answer) <= clear_half_width(session.state)
        assert not triples(session)
        assert session.ask("a < 4 AND b < 4 AND c < 4").spent.charged == pytest.approx(2 * PRICE, rel=1e-2)
        assert triples(session) == [("a", "b", "c")]


def test_what_has_a_number_of_its_own_buys_no_marginal_whoever_looks_again(tmp_path: Path) -> None:
    path = tmp_path / "grades.pmw"
    for where in ("a < 8 AND b < 8 AND c < 8", "a BETWEEN 4 AND 11 AND b BETWEEN 4 AND 11 AND c > 7"):
        with grades(16, path) as session:
            assert session.ask(where).spent.charged == pytest.approx(PRICE, rel=1e-2)
            assert session.ask(where, fresh=True).spent.charged == 0
        with grades(16, path) as session:
            assert session.ask(where, fresh=True).spent.charged == 0
            assert not triples(session)


def test_the_next_number_costs_what_is_left_after_one_more() -> None:
    with opened() as session:
        session.ask(ASKED)
        part = (2 * FULL - 2) / (2 * FULL - 1)  # of what two prices leave, for one number less
        assert session.ask(WIDE).spent.charged == pytest.approx(PRICE * part, rel=1e-5)


def test_an_analyst_pays_for_it_and_others_are_free() -> None:
    with opened() as session:
        ann, bob = session.analyst("ann", 0.5, at_most=1), session.analyst("bob", 0.5, at_most=1)
        assert ann.ask(ASKED).spent.charged == pytest.approx(2 * PRICE, rel=1e-6)
        assert session.ledger().lines[-1].booked[0][0] == "ann"
        assert bob.ask(ASKED.replace("'f'", "'m'")).spent.charged == 0
        assert session.analyst("eve", 0).ask("sex = 'f' AND region = 'n' AND rooms > 3").spent.charged == 0
        assert triples(session) == [TRIPLE]


def test_a_stream_buys_what_its_questions_buy_one_by_one() -> None:
    asked = [
        LinearQuery.cells(DOMAIN, {name: (place % DOMAIN[name].size,) * 2 for name in names})
        for place in range(3)
        for names in itertools.combinations(("sex", "region", "smoker", "rooms"), 3)
    ]
    with opened() as together, opened() as alone:
        many, single = together.ask_all(asked), [alone.ask(query) for query in asked]
        assert many.charged.tolist() == [one.spent.charged for one in single]
        assert [tuple(ends) for ends in many.interval.tolist()] == [one.interval for one in single]
        assert together.ledger().lines == alone.ledger().lines
        assert len(set(triples(together))) == len(triples(together)) > 1
