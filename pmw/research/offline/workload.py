"""The workload as candidates: what the rounds of a release may choose among. Public, like all questions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pmw.research.offline.options import Targets
from queries.domain import Domain
from queries.errors import QueryError
from queries.linear import LinearQuery

MOST_CANDIDATES = 100_000
_LONGEST_SCOPE = 16  # attributes; a scope of 16 has 65,535 parts

WorkloadItem: TypeAlias = LinearQuery | Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What rounds choose among.

    Args:
        scopes: every part of every scope of the workload, shorter ones first; empty where questions are
            chosen.
        queries: the workload's questions, each once; empty where it lists scopes alone.
    """

    scopes: tuple[tuple[str, ...], ...]
    queries: tuple[LinearQuery, ...]


def candidates_of(domain: Domain, workload: Iterable[WorkloadItem], targets: Targets) -> Candidates:
    """Return the candidates of a workload: its scopes closed downwards, or its questions.

    Args:
        domain: the declared attributes.
        workload: queries, or scopes as sequences of attribute names.
        targets: what rounds measure.

    Raises:
        QueryError: the workload is empty, too large, made for another domain, or lists scopes or a single
            question where questions are to be chosen.
        ScopeError: a scope names an unknown attribute, or one twice.
    """
    queries: dict[bytes, LinearQuery] = {}
    wide: dict[tuple[str, ...], None] = {}
    for item in workload:
        if isinstance(item, LinearQuery):
            if item.domain != domain:
                raise QueryError("the workload was made for another domain", code="bad_request")
            queries.setdefault(item.key(), item)
            wide[item.scope] = None
        else:
            wide[domain.scope([item] if isinstance(item, str) else item)] = None
    if targets is Targets.QUERY:
        if not queries:
            raise QueryError("expected a workload of questions to choose among, got none", code="bad_request")
        if len(queries) == 1:
            raise QueryError(
                "expected a workload of at least two different questions to choose among, got one; a session "
                "measures it without paying for a choice",
                code="bad_request",
            )
        return Candidates((), tuple(queries.values()))
    scopes = _parts(wide)
    if not scopes:
        raise QueryError("expected a workload that names an attribute, got none", code="bad_request")
    return Candidates(tuple(sorted(scopes, key=lambda scope: (len(scope), scope))), tuple(queries.values()))


def _parts(wide: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    scopes: set[tuple[str, ...]] = set()
    for scope in wide:
        if len(scope) > _LONGEST_SCOPE:
            raise QueryError(
                f"expected scopes of at most {_LONGEST_SCOPE} attributes, got one of {len(scope)}",
                code="too_large",
            )
        for length in range(1, len(scope) + 1):
            scopes.update(itertools.combinations(scope, length))
        if len(scopes) > MOST_CANDIDATES:
            raise QueryError(
                f"expected a workload of at most {MOST_CANDIDATES:,} scopes with their parts",
                code="too_large",
            )
    return scopes
