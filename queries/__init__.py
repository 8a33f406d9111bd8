"""What can be asked of a table: domains, counting queries, conditions, workloads and coded records."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queries.categories import CategoricalAttribute
    from queries.dates import DateAttribute, DatetimeAttribute, TimeAttribute
    from queries.domain import Attribute, Domain
    from queries.errors import DomainError, QueriesError, QueryError, RecordsError, SchemaError, ScopeError
    from queries.factors import UNITS, Factor
    from queries.impossible import Impossible
    from queries.linear import LinearQuery
    from queries.lookups import Lookup
    from queries.marginal import Histogram, Marginal
    from queries.numbers import IntegerAttribute, NumericAttribute
    from queries.parsing import Question, parse_line, parse_question, parse_sql, parse_where, rule_out
    from queries.person import Person
    from queries.records import CodedRecords, decode_records, encode_records
    from queries.schema import format_schema, load_schema, parse_schema, save_schema
    from queries.statements import Statement
    from queries.workloads import (
        Workload,
        all_marginals,
        all_ranges,
        marginal_cells,
        parities,
        parse_workload,
        popular_conjunctions,
        prefixes,
        random_conjunctions,
    )

__all__ = [
    "all_marginals", "all_ranges", "Attribute", "CategoricalAttribute", "CodedRecords", "DateAttribute",
    "DatetimeAttribute", "decode_records", "Domain", "DomainError", "encode_records", "Factor",
    "format_schema", "Histogram", "Impossible", "IntegerAttribute", "LinearQuery", "load_schema",
    "Lookup", "Marginal", "marginal_cells", "NumericAttribute", "parities", "parse_line",
    "parse_question", "parse_schema", "parse_sql", "parse_where", "parse_workload", "Person",
    "popular_conjunctions", "prefixes", "QueriesError", "QueryError", "Question", "random_conjunctions",
    "RecordsError", "rule_out", "save_schema", "SchemaError", "ScopeError", "Statement", "TimeAttribute",
    "UNITS", "Workload",
]  # fmt: skip

# Where each name lives. They are imported on first use, so that a module loads what it needs alone.
_HOMES = {
    "categories": "CategoricalAttribute",
    "dates": "DateAttribute DatetimeAttribute TimeAttribute",
    "domain": "Attribute Domain",
    "errors": "DomainError QueriesError QueryError RecordsError SchemaError ScopeError",
    "factors": "Factor UNITS",
    "impossible": "Impossible",
    "linear": "LinearQuery",
    "lookups": "Lookup",
    "marginal": "Histogram Marginal",
    "numbers": "IntegerAttribute NumericAttribute",
    "parsing": "parse_line parse_question parse_sql parse_where Question rule_out",
    "person": "Person",
    "records": "CodedRecords decode_records encode_records",
    "schema": "format_schema load_schema parse_schema save_schema",
    "statements": "Statement",
    "workloads": "all_marginals all_ranges marginal_cells parities parse_workload popular_conjunctions "
    "prefixes random_conjunctions Workload",
}
_HOME_OF = {name: f"queries.{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'queries' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
