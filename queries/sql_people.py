"""Counts of people: ``COUNT(DISTINCT id)`` where what is counted are the kept records of each person.

A session counts records, at most K of each person. Where K is one, everybody's records are as many as there
are persons with a kept record. With a condition they are not: a person may have a record that satisfies it,
but is not the one that was kept. Only of attributes that are the same in all records of a person does it not
matter which one that is.
"""

from __future__ import annotations

from sqlglot import exp

from queries.domain import Domain
from queries.errors import QueryError
from queries.sql_tree import position_of

REFUSED = "COUNT(DISTINCT …) of people is not answered here"


def counts_people(counted: object, domain: Domain) -> bool:
    """Tell whether what a COUNT stands around is DISTINCT and the column of ids."""
    if domain.person is None or not isinstance(counted, exp.Distinct) or len(counted.expressions) != 1:
        return False
    (column,) = counted.expressions
    if not isinstance(column, exp.Column) or set(_given(counted)) != {"expressions"}:
        return False
    if set(_given(column)) != {"this"}:
        return False
    name, declared = column.name, domain.person.column
    return name == declared or (not column.this.args.get("quoted") and name.casefold() == declared.casefold())


def require_countable(node: exp.Expr, scope: set[str], domain: Domain) -> None:
    """Refuse a count of people that the kept records do not tell.

    Args:
        node: the column of the SELECT list.
        scope: the attributes that conditions and groups name.
        domain: the declared attributes, and persons.

    Raises:
        QueryError: several records of a person are kept, or an attribute may differ between them.
    """
    person = domain.person
    if person is None:
        return
    if person.records != 1:
        raise _refusal(
            f"up to {person.records} records of each person are kept, so counts of records do not tell how "
            "many people there are; a session with one record per person answers it",
            node,
        )
    changing = sorted(scope - set(person.constant))
    if changing:
        raise _refusal(
            f"one record of each person is kept, so a condition on {changing[0]!r} would count the people "
            "whose kept record satisfies it, and not those who have such a record; ask for everybody, or on "
            "attributes that the schema's [person] declares constant",
            node,
        )


def _given(node: exp.Expr) -> list[str]:
    return [key for key, value in node.args.items() if value not in (None, False, [])]


def _refusal(reason: str, node: exp.Expr) -> QueryError:
    return QueryError(f"{REFUSED}: {reason}", code="unsupported", position=position_of(node))
