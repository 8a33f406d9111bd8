"""``pmw finish``: what it would do first, nothing without a yes, and which bars it made narrower."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import pmw
from pmw.cli.texts import finish_text
from pmw.display.texts import number
from pmw.session.maintenance import is_closed, read_session, verify_session
from queries import Domain, IntegerAttribute
from tests.pmw.cli.commands import Run

DOMAIN = Domain(tuple(IntegerAttribute(name, 0, 99) for name in "abc"))


def test_it_tells_what_it_would_do_and_does_that(repeatable: None, asked_years: Path, run: Run) -> None:
    asked = ("sex = 'Male' AND member = true", "region = 'north' AND member = true", "age >= 50")
    run.told("ask", "study.pmw", asked[2])

    def widths() -> list[float]:
        forms = [run.form("ask", "study.pmw", text, "--fresh") for text in asked]
        return [(high - low) / 2 for low, high in (form["interval"] for form in forms)]

    before = widths()
    told = run.told("finish", "study.pmw", "--dry-run")
    assert told.count("would cost") >= 2
    assert "nothing was spent" in told
    assert not is_closed(asked_years)
    assert "--yes" in run.refused("finish", "study.pmw", code=2)
    planned = [line["scope"] for line in run.forms("finish", "study.pmw", "--dry-run", "--json")]
    assert len(planned) == told.count("would cost")
    done = run.told("finish", "study.pmw", "--yes")
    assert done.count("Measured ") == len(planned)
    state = read_session(asked_years)[0]
    assert [list(one.scope) for one in state.marginals if one.requested][2:] == planned
    assert state.closed
    assert verify_session(asked_years).holds
    assert "closed" in run.refused("finish", "study.pmw", "--yes")
    after = widths()
    narrower = [(old, new) for old, new in zip(before, after, strict=True) if new <= 0.9 * old]
    assert narrower
    old, new = (sorted(widths)[(len(narrower) - 1) // 2] for widths in zip(*narrower, strict=True))
    assert (
        f"\nNarrower bars: {len(narrower)} of 3 asked questions, ± {number(new)} records where it was ± "
        f"{number(old)} (medians). Ask again for the better answers.\nClosed study.pmw: "
    ) in done


def test_a_bar_that_was_not_there_before_is_told_as_such() -> None:
    table = pd.DataFrame({name: [0, 1] for name in "abc"})
    with pmw.open_session(
        table, DOMAIN, epsilon=1, delta=1e-9, options=pmw.Options(seed=3, opening=pmw.Opening.ONE_WAY)
    ) as session:
        quotes = [session.measure("a", dry_run=True)]
        state = session.state

    def told(before: Sequence[float], after: Sequence[float]) -> str:
        return finish_text(Path("s.pmw"), quotes, state, before, after).splitlines()[1]

    again = "Ask again for the better answers."
    assert told([math.inf], [69.4]) == (
        f"Narrower bars: 1 of 1 asked question, ± 69 records where there was none (medians). {again}"
    )
    assert told([math.inf, 10, 100], [math.inf, 9.1, 90]) == (
        f"Narrower bars: 1 of 3 asked questions, ± 90 records where it was ± 100 (medians). {again}"
    )
    assert told([math.inf, 10], [math.inf, 9.1]) == (
        "Narrower bars: none of 2 asked questions, by a tenth or more."
    )


def test_where_nothing_is_measured_it_says_why(yearly_study: Path, run: Run) -> None:
    def told() -> str:
        return run.told("finish", "study.pmw", "--dry-run").splitlines()[0]

    assert told() == "Nothing is measured: no question was asked."
    run.told("ask", "study.pmw", "")
    assert told() == (
        "Nothing is measured: what is left pays for no table that would serve 1 asked question."
    )
