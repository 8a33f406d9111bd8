"""Forms: what every address answers, as models that ``GET /openapi.json`` describes.

A field whose name ends in ``_`` is left out where there is nothing to tell.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic import ConfigDict, create_model


def _form(name: str, /, **fields: Any) -> Any:
    """Return the model of an object with these fields and no other."""
    given: dict[str, Any] = {
        field.rstrip("_"): (kind, None if field.endswith("_") else ...) for field, kind in fields.items()
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **given)


def _list(kind: Any) -> Any:
    return list.__class_getitem__(kind)


_Texts, _Ends, _Number, _Plain = list[str], list[float] | None, float | None, str | float | bool | None

# fmt: off
Problem = _form("Problem", error=_form("Error", code=str, message=str, position=int | str | None,
    request_id_=str, price_=float))
_Kept = _form("RecordsKept", person=str, at_most=int)
_Spent = _form("Spent", share=float, epsilon_cap=float, delta=float, charged_=float)
_MARKS = {"records_kept_": _Kept, "seeded_": bool, "id_": Any, "error_": dict[str, str]}
_Count = _form("Answer", count=_Number, fraction=_Number, interval=_Ends, typical=_Ends, confidence=float,
    source=str, aligned=bool, version=int, spent=_Spent, below_=int, **_MARKS)
_Estimate = _form("Estimate", value=_Number, low=_Number, high=_Number, source=str, typical=_Ends,
    aligned=bool, conditional_=bool, below_=int)
_Table = _form("AnswerTable", rows=_list(dict.__class_getitem__((str, _Estimate | _Plain))), notes=_Texts,
    confidence=float, version=int, spent=_Spent, **_MARKS)
_Refused = _form("Refused", error=Problem.model_fields["error"].annotation, id_=Any)
Quote = _form("Quote", heads_=bool, sum_=str, scope=_Texts, cells=int, counted_=bool, squared_=bool,
    share=float, half_width=float, mean_half_width_=float, affordable=bool, questions_=int, estimated_=bool,
    needed_=bool)
_Scope = _form("ExplainedScope", scope=_Texts, questions=int, left_out=int, examples=_Texts, held=str,
    quote=Quote | None)
_Cost = _form("Cost", questions=int, stored=int, least=float, most=float, scopes_=_list(_Scope))
Asked = _Count | _Table | Quote | _Cost | _form("Answers", answers=_list(_Count | _Table | _Refused))
You = _form("You", name_=str, spent=float, exact_=str, questions=int, share=_Number, left=_Number)
Sessions = _form("Sessions", user=str, role=str, at_most=_Number, sessions=_list(_form("SessionSummary",
    name=str, table=str, attributes=_Texts, budget_share=float, share=float)))
_Typical = _form("TypicalError", kind=str, within=float, within_fraction=float, questions=int, asked=int)
_Reserve = _form("Reserve", share=float, numbers=int, half_width=_Number, left=float)
Status = _form("Status", table=str, guarantee=str, budget_share=float, epsilon_cap=float, delta=float,
    positives_used=int, positives_limit=int, queries_answered=int, total=float, version=int,
    model_cells=int, pairs=int, pairs_held=int, closed=bool, typical_errors=_list(_Typical), you=You,
    seeded_=bool, certified_marginals_=int, drafts_=dict[str, float], prior_=str,
    prior_used_=bool | None, records_kept_=_Kept, reserve_=_Reserve, impossible_=_Texts,
    contradicted_=_Texts)
Described = create_model("Schema", __config__=ConfigDict(extra="allow"), name=str,
    attributes=list[dict[str, Any]], records=float, guarantee=str, confidence=float, held=list[list[str]])
Queries = _form("AskedQuestions", queries=_Texts)
_Line = _form("LedgerLine", number=int, event=str, label=str, epsilon=_Number, charge=float, share=float,
    running_share=float, exact=str, theorem=str, booked_=list[dict[str, str]])
_Sum = _form("Booked", name=str, spent=float, exact=str, questions=int, share=float | None,
    left=float | None)
Ledger = _form("Ledger", epsilon_cap=float, delta=float, composition=str, unit=str, cap=float, spent=float,
    share=float, entries=_list(_Line), analysts=_list(_Sum), drafts_=list[dict[str, Any]])
_Activity = _form("Activity", session=str, number=int, name=str, query=dict[str, Any], words=str,
    source=str, count=_Number, interval=_Ends, share=float)
History, Activities = _form("History", history=_list(_Activity)), _form("Activities",
    activity=_list(_Activity))
# fmt: on

Responses: TypeAlias = dict[int | str, dict[str, Any]]


def _refusals(**texts: str) -> Responses:
    return {status.strip("_"): {"model": Problem, "description": text} for status, text in texts.items()}


LATE = _refusals(
    _408="The body is late", _409="The key was used for another request", _413="The body is long"
)
UNREADY = _refusals(_503="Users, a session or the disk cannot be used now")
ERRORS = _refusals(
    _400="A bad question, body or parameter, or too many cells",
    _401="No token, or one that is not good",
    _403="Not allowed, or a price that is above a ceiling or not left",
    _429="Too many requests: see Retry-After",
    _500="An unexpected error",
    _503="The session, or the service, cannot be used now",
    default="Any other error",
)
