"""``pmw finish``: what it would do first, nothing without a yes, and a kill in the middle of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from click.testing import Result

import pmw
from pmw.cli.texts import finish_text
from pmw.display.texts import number
from pmw.session.maintenance import is_closed, read_session, verify_session
from queries import Domain, IntegerAttribute

Run = Callable[..., Result]
DOMAIN = Domain(tuple(IntegerAttribute(name, 0, 99) for name in "abc"))


def test_it_tells_what_it_would_do_and_does_that(asked_years: Path, run: Run) -> None:
    told = run("finish", "study.pmw", "--dry-run")
    assert told.exit_code == 0
    assert told.stdout.count("would cost") >= 2
    assert "nothing was spent" in told.stdout
    assert not is_closed(asked_years)
    refused = run("finish", "study.pmw")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    lines = run("finish", "study.pmw", "--dry-run", "--json").stdout.splitlines()
    planned = [json.loads(line)["scope"] for line in lines]
    assert len(planned) == told.stdout.count("would cost")
    done = run("finish", "study.pmw", "--yes")
    assert done.exit_code == 0
    assert done.stdout.count("Measured ") == len(planned)
    assert "Closed" in done.stdout
    state = read_session(asked_years)[0]
    assert [list(one.scope) for one in state.marginals if one.requested][2:] == planned
    assert state.closed
    assert verify_session(asked_years).holds
    again = run("finish", "study.pmw", "--yes")
    assert (again.exit_code, "closed" in again.stderr) == (1, True)


def test_it_says_which_bars_became_narrower_and_by_how_much(
    repeatable: None, asked_years: Path, run: Run
) -> None:
    asked = ("sex = 'Male' AND member = true", "region = 'north' AND member = true", "age >= 50")
    assert run("ask", "study.pmw", asked[2]).exit_code == 0

    def widths() -> list[float]:
        forms = [json.loads(run("ask", "study.pmw", text, "--fresh", "--json").stdout) for text in asked]
        return [(high - low) / 2 for low, high in (form["interval"] for form in forms)]

    before = widths()
    done = run("finish", "study.pmw", "--yes").stdout
    after = widths()
    narrower = [(old, new) for old, new in zip(before, after, strict=True) if new <= 0.9 * old]
    assert narrower
    old, new = (sorted(widths)[(len(narrower) - 1) // 2] for widths in zip(*narrower, strict=True))
    assert (
        f"\nNarrower bars: {len(narrower)} of 3 asked questions, ± {number(new)} records where it was ± "
        f"{number(old)} (medians). Ask again for the better answers.\nClosed study.pmw: "
    ) in done
    assert "Narrower" not in run("status", "study.pmw").stdout


def test_a_bar_that_was_not_there_before_is_told_as_such() -> None:
    table = pd.DataFrame({name: [0, 1] for name in "abc"})
    with pmw.open_session(table, DOMAIN, epsilon=1, delta=1e-9, options=pmw.Options(seed=3)) as session:
        quotes = [session.measure("a", dry_run=True)]
        state = session.state

    def told(before: Sequence[float], after: Sequence[float]) -> str:
        return finish_text(Path("s.pmw"), quotes, state, before, after).splitlines()[1]

    assert told([math.inf], [69.4]) == (
        "Narrower bars: 1 of 1 asked question, ± 69 records where there was none (medians). "
        "Ask again for the better answers."
    )
    assert told([math.inf, 10, 100], [math.inf, 9.1, 90]) == (
        "Narrower bars: 1 of 3 asked questions, ± 90 records where it was ± 100 (medians). "
        "Ask again for the better answers."
    )
    assert told([math.inf, 10], [math.inf, 9.1]) == (
        "Narrower bars: none of 2 asked questions, by a tenth or more."
    )


def test_where_nothing_is_measured_it_says_why(asked_years: Path, run: Run) -> None:
    given = ("--data", "people.csv", "--schema", "people.toml", "--epsilon", "4", "--delta", "1e-9")
    assert run("open", "other.pmw", *given).exit_code == 0
    unasked = run("finish", "other.pmw", "--dry-run").stdout.splitlines()[0]
    assert unasked == "Nothing is measured: no question was asked."
    assert run("ask", "other.pmw", "").exit_code == 0
    everybody = run("finish", "other.pmw", "--dry-run").stdout.splitlines()[0]
    assert (
        everybody == "Nothing is measured: what is left pays for no table that would serve 1 asked question."
    )
