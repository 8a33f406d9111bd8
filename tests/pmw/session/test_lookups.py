"""Lookups travel with the contract: sessions, models and exports join them without their schema."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.public.codec import dumps, form_of, loads, read
from queries import Domain, Lookup, QueryError, format_schema, parse_schema
from tests.worlds import PEOPLE

REGIONS = Lookup(
    "regions",
    "region",
    {"north": {"side": "cold", "short": "N"}, "south": {"side": "warm"}, "east": {"side": "cold"}},
    key="code",
)
DOMAIN = replace(PEOPLE.domain, lookups=(REGIONS,))
SIDES = "SELECT r.side, COUNT(*) AS n FROM people p JOIN regions r ON p.region = r.code GROUP BY r.side"
SAME = (
    "SELECT CASE WHEN region IN ('north', 'east') THEN 'cold' ELSE 'warm' END AS side, COUNT(*) AS n "
    "FROM people WHERE region IN ('north', 'east', 'south') GROUP BY side"
)


def opened(folder: Path, domain: Domain = DOMAIN) -> pmw.Session:
    return pmw.open_session(PEOPLE.frame, domain, epsilon=4, delta=1e-9, path=folder / "study.pmw")


def rows(asked: pmw.Session | pmw.PublicModel, statement: str = SIDES) -> Any:
    return asked.sql(statement).to_dict()["rows"]


def test_what_is_asked_by_names_is_what_is_asked_by_codes(tmp_path: Path, repeatable: None) -> None:
    with opened(tmp_path) as session:
        named, coded = (rows(session, statement) for statement in (SIDES, SAME))
    assert sorted(named, key=str) == sorted(coded, key=str)
    truth = int(PEOPLE.frame["region"].isin(["north", "east"]).sum())
    ends = {row["side"]: (row["n"]["low"], row["n"]["high"]) for row in named}
    assert set(ends) == {"cold", "warm"}
    assert ends["cold"][0] <= truth <= ends["cold"][1]


def test_a_session_and_its_model_keep_the_lookups(tmp_path: Path, repeatable: None) -> None:
    with opened(tmp_path) as session:
        found = rows(session)
        manifest = session.export(tmp_path / "study.json", format="measurements")
        session.export(tmp_path / "study.model")
    assert parse_schema(manifest["schema"]).lookups == (REGIONS,)
    with pmw.resume_session(tmp_path / "study.pmw") as again:
        assert again.domain.lookups == (REGIONS,)
        assert rows(again) == found
    model = pmw.load_model(tmp_path / "study.model")
    assert model.domain.lookups == (REGIONS,)
    assert rows(model) == found


def test_the_contract_comes_back_with_its_lookups(tmp_path: Path, repeatable: None) -> None:
    with opened(tmp_path) as session:
        contract = session.state.contract
    again = read(type(contract), loads(dumps(form_of(contract))))
    assert again == contract
    assert again.domain.lookups == (REGIONS,)


def test_a_schema_without_lookups_is_written_as_before() -> None:
    assert "lookups" not in format_schema(PEOPLE.domain)
    assert format_schema(DOMAIN).startswith(format_schema(PEOPLE.domain))
    assert parse_schema(format_schema(PEOPLE.domain)).lookups == ()


def test_a_refused_join_spends_nothing(tmp_path: Path, repeatable: None) -> None:
    with opened(tmp_path) as session:
        before = session.status().budget_share
        for text in (
            "JOIN regions r ON p.sex = r.code",
            "JOIN people q ON p.age = q.age",
            "CROSS JOIN regions",
        ):
            with pytest.raises(QueryError, match="is not supported; lookups of the schema"):
                session.sql(f"SELECT COUNT(*) FROM people p {text}")
        assert session.status().budget_share == before
