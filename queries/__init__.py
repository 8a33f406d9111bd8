"""What can be asked of a table: domains, counting queries, conditions, workloads and coded records."""

from __future__ import annotations

from queries.domain import (
    Attribute,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
)
from queries.errors import (
    DomainError,
    QueriesError,
    QueryError,
    RecordsError,
    SchemaError,
    ScopeError,
)
from queries.linear import UNITS, Factor, LinearQuery
from queries.marginal import Histogram, Marginal
from queries.parsing import Question, parse_line, parse_question, parse_where
from queries.records import CodedRecords, decode_records, encode_records
from queries.schema import format_schema, load_schema, parse_schema, save_schema
from queries.workloads import Workload, all_marginals, all_ranges, random_conjunctions

__all__ = [
    "UNITS",
    "Attribute",
    "CategoricalAttribute",
    "CodedRecords",
    "Domain",
    "DomainError",
    "Factor",
    "Histogram",
    "IntegerAttribute",
    "LinearQuery",
    "Marginal",
    "NumericAttribute",
    "QueriesError",
    "QueryError",
    "Question",
    "RecordsError",
    "SchemaError",
    "ScopeError",
    "Workload",
    "all_marginals",
    "all_ranges",
    "decode_records",
    "encode_records",
    "format_schema",
    "load_schema",
    "parse_line",
    "parse_question",
    "parse_schema",
    "parse_where",
    "random_conjunctions",
    "save_schema",
]
