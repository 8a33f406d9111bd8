"""Requests are data: a session of a service answers any of them as a session of this process, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.public.answer import Answer
from pmw.service.users import Role, User, UsersFile
from pmw.session.exact import exact_text
from pmw.session.measurement_requests import MeasurementRequest
from pmw.session.session_requests import Kinds, SessionRequest
from tests import worlds

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from pmw.service.hosting import Hosted, Service
from tests.pmw.service.test_alike import serving

NAMES = ("age", "sex", "region", "member", "height")
QUESTIONS = st.one_of(
    st.sampled_from(["", "age >=", "age = 'x'", "height > 3", {"height": {"gt": 3}}]),
    st.builds("age BETWEEN {} AND {}".format, st.integers(18, 60), st.integers(50, 90)),
    st.builds("sex = 'Male' AND age < {} AND member = TRUE".format, st.integers(17, 91)),
    st.builds(lambda region: {"region": {"eq": region}}, st.sampled_from(["north", "south", "nowhere"])),
)
STATEMENTS = st.sampled_from(
    [
        "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY sex",
        "SELECT COUNT(*) FROM people WHERE region = 'north'",
        "SELECT SUM(age) FROM people WHERE member",
        "SELECT region, COUNT(*) FROM people GROUP BY ROLLUP(region)",
        "SELECT height FROM people",
        "SELECT FROM",
    ]
)
WIDTHS = st.sampled_from([5000, 300, 60.5, "1%", "50%", 1e-9])
PARTS = st.sampled_from([None, 0, 1e-6, 0.01, Fraction(1, 3), 1])
KEYS = st.sampled_from([None, None, "one", "two"])
BY = st.sampled_from(
    [(), ("age",), ("sex",), ("height",), ("region", "sex"), ("sex", "sex"), ("member", "age")]
)
MEASURED = st.one_of(
    st.builds(MeasurementRequest, st.just("counts"), BY),
    st.builds(
        MeasurementRequest,
        st.just("sums"),
        BY,
        st.sampled_from([None, 0.01]),
        summed=st.sampled_from(NAMES),
    ),
    st.builds(MeasurementRequest, st.just("persons"), BY),
)
PAID: dict[str, Any] = {"request_id": KEYS, "at_most": PARTS}
REQUESTS = st.one_of(
    st.builds(SessionRequest, st.just(Kinds.ASK), QUESTIONS, fresh=st.booleans(), **PAID),
    st.builds(SessionRequest, st.just(Kinds.SQL), STATEMENTS, fresh=st.booleans(), at_most=PARTS),
    st.builds(
        SessionRequest, st.sampled_from([Kinds.FORECAST, Kinds.EXPLAIN]), st.one_of(QUESTIONS, STATEMENTS)
    ),
    st.builds(SessionRequest, st.just(Kinds.QUOTE), st.one_of(QUESTIONS, STATEMENTS), within=WIDTHS),
    st.builds(SessionRequest, st.just(Kinds.ASK_WITHIN), QUESTIONS, within=WIDTHS, **PAID),
    st.builds(SessionRequest, st.just(Kinds.SQL_WITHIN), STATEMENTS, within=WIDTHS, **PAID),
    st.builds(SessionRequest, st.just(Kinds.MEASURE), what=MEASURED, dry_run=st.booleans(), **PAID),
    st.builds(SessionRequest, st.just(Kinds.HISTORY), most=st.sampled_from([-1, 0, 1, 5])),
    st.builds(SessionRequest, st.sampled_from([Kinds.STATUS, Kinds.BUDGET, Kinds.LEDGER])),
)


def opened() -> pmw.Session:
    """Return a session whose noise is repeatable; two of them draw the same for the same requests."""
    options = pmw.Options(opening=pmw.Opening.ONE_WAY, seed=11)
    return pmw.open_session(
        worlds.PEOPLE.frame, worlds.WHOLE_YEARS.domain, epsilon=1, delta=1e-9, options=options
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[pmw.Analyst, pmw.RemoteSession]]:
    users = UsersFile(tmp_path_factory.mktemp("requests") / "users.json")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    with opened() as here, opened() as there:
        service = Service([Hosted("study", there, users.path)], users)
        with (
            closing(service.history),
            serving(service) as url,
            pmw.connect(url, token=token) as remote,
        ):
            ann = here.analyst("ann", Fraction(1))
            ann.place = f"{url}/sessions/study"  # as commands in notes name it
            yield ann, remote


def outcome(session: Any, request: SessionRequest[Any]) -> str:
    """Return all digits of what comes of a request, or why it is refused."""
    try:
        found = session.do(request)
    except pmw.PMWError as error:
        return f"refused: {error}"
    return repr(found) if isinstance(found, Answer) else exact_text(found)


@settings(max_examples=150)
@given(request=REQUESTS)
def test_a_service_does_any_request_as_its_session_does(
    pair: tuple[pmw.Analyst, pmw.RemoteSession], request: SessionRequest[Any]
) -> None:
    found = [(outcome(one, request), one.budget()) for one in pair]  # both, so that they stay alike
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "fields",
    [
        *(
            {"kind": kind, "within": width}
            for kind in (Kinds.QUOTE, Kinds.ASK_WITHIN, Kinds.SQL_WITHIN)
            for width in (None, 0, -1, "x")
        ),
        {"kind": Kinds.SQL, "at_most": "x"},
    ],
    ids=str,
)
def test_a_request_with_a_field_that_cannot_be_is_never_made(fields: dict[str, Any]) -> None:
    with pytest.raises(pmw.PMWError, match="expected a"):
        SessionRequest(**fields)
