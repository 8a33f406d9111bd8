"""The contract: what is fixed for a session when it opens, and what it promises in words."""

from __future__ import annotations

import math
from dataclasses import replace

from pmw.display.texts import budget_words, counted
from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, NeighboringRelation
from pmw.public.options import Options, drafted, with_drafts
from queries.domain import Domain, require_domain
from queries.frozen import dataclass
from queries.person import Person


@dataclass(frozen=True, slots=True)
class RecordsKept:
    """Which records every number is about, where the session bounds the records of each person.

    Args:
        at_most: so many records of each id are kept; the others were left out before anything was counted.
    """

    person: str
    at_most: int

    def describe(self) -> str:
        """Return it in words; every output says it in these."""
        return f"of the records kept: at most {self.at_most:,} of each {self.person}"

    def note(self) -> str:
        """Return it as a sentence of its own, for what stands under a table."""
        words = self.describe()
        return f"{words[0].upper()}{words[1:]}."

    def to_dict(self) -> dict[str, str | int]:
        """Return a form ready for JSON, the value of ``records_kept``."""
        return {"person": self.person, "at_most": self.at_most}


@dataclass(frozen=True, slots=True)
class Contract:
    """What is fixed when a session opens, all of it public.

    Args:
        budget: what the session may spend, its drafts apart.
    """

    domain: Domain
    budget: Budget
    options: Options

    def __post_init__(self) -> None:
        person, options = self.domain.person, self.options
        declared = (None, options.records_per_person) if person is None else (person.column, person.records)
        if declared != (options.person_column, options.records_per_person):
            raise BudgetError("expected the same persons in the domain and in the options; see agreed()")
        if options.drafts:
            self._check_drafts()
        if options.expected is not None and not options.expected.are_about(self.domain):
            raise BudgetError(
                "the expected questions are about attributes that the schema does not declare; make them by "
                "expected_questions with this schema"
            )

    def _check_drafts(self) -> None:
        person, options = self.domain.person, self.options
        wanted = options.person_column, options.records_per_person
        if any((one.person_column, one.records_per_person) != wanted for one in options.drafts):
            raise BudgetError(
                "the drafts of the schema are for other persons than the session, or for another number of "
                "records of each; open it with those that they were made with"
            )
        if person is not None and person.ids != "text":
            raise BudgetError(
                "drafts of a schema tell ids apart as texts, and its [person] as whole numbers; leave ids "
                "out, and write each id in one way"
            )
        delta = drafted(options.drafts)[1]
        if delta and not self.budget.delta:
            raise BudgetError(
                "drafts of the schema have a delta, and the session has none; open it with a delta above 0"
            )
        if delta + self.budget.delta >= 1:
            raise BudgetError("the deltas of the drafts and of the session come to 1; choose a smaller one")

    @property
    def whole(self) -> Budget:
        """The guarantee of all that was released: by the session, and by the drafts of its schema."""
        return with_drafts(self.budget, self.options.drafts)

    @property
    def seeded(self) -> bool:
        """The noise can be repeated by anybody: no privacy. Every output says so."""
        return self.options.seed is not None

    @property
    def records_kept(self) -> RecordsKept | None:
        """Which records every number is about; None where no column of ids bounds a person's."""
        person = self.domain.person
        return None if person is None else RecordsKept(person.column, self.options.records_per_person)


def agreed(domain: Domain, options: Options) -> tuple[Domain, Options]:
    """Return a domain and options that declare the same persons, each completed by the other."""
    require_domain(domain)
    person, column, records = domain.person, options.person_column, options.records_per_person
    if person is None and column is None:
        return domain, options
    person = person or Person(column or "", records)
    if column not in (None, person.column):
        raise BudgetError(
            f"the schema's [person] names the column {person.column!r}, and person_column={column!r} is "
            "given; name one column, or leave it out in one place"
        )
    if person.records not in (None, records) and records != 1:
        raise BudgetError(
            f"the schema's [person] keeps {person.records} records of each, and records_per_person={records} "
            "is given; give one number, or leave it out in one place"
        )
    records = person.records or records
    chosen = replace(options, person_column=person.column, records_per_person=records)
    return replace(domain, person=replace(person, records=records)), chosen


def published_contract(contract: Contract) -> Contract:
    """Return a contract as it is told: a seed itself, which gives the open round's noise, is told as 0."""
    return contract if not contract.seeded else replace(contract, options=replace(contract.options, seed=0))


def guarantee(contract: Contract) -> str:
    """Return the guarantee of a session in words."""
    if contract.seeded:
        return "none: the noise of this session is seeded and can be repeated by anybody"
    return (
        f"differential privacy with {guarantee_terms(contract)}; "
        "it covers everything this session releases, however often it is asked"
    )


def guarantee_terms(contract: Contract) -> str:
    """Return the numbers of a guarantee and whom it is for, for those who have read it in words."""
    budget, whole, drafts = contract.budget, contract.whole, contract.options.drafts
    terms = budget_words(budget.epsilon, budget.delta, " = ")
    if drafts:
        more = budget_words(*drafted(drafts), " = ")
        parts = f"{terms} in the session and {more} in {counted(len(drafts), 'draft')} of its schema"
        terms = budget_words(whole.epsilon, whole.delta, " = ", 12) + f" ({parts})"
    return f"{terms}, for {replacement(contract)}"


def replacement(contract: Contract) -> str:
    """Return in words what neighbouring tables differ by."""
    options, person = contract.options, contract.domain.person
    records = options.records_per_person
    unit = "one record" if records == 1 else f"{records} records"
    adding = options.neighboring_relation is NeighboringRelation.ADD_REMOVE
    verb = "adding or removing" if adding else "replacing"
    if person is None:
        return f"{verb} all of one person's records (at most {unit})"
    alone = ", or one record without any" if person.empty == "person" else ""
    return (
        f"{verb} one person{'' if adding else ' by another'}: all records with one value of "
        f"{person.column!r}{alone}, of which at most {unit} {'is' if records == 1 else 'are'} kept"
    )


def largest_belief(contract: Contract, prior: float = 0.5) -> float:
    """Return how likely somebody can come to think, by all releases, what tells two neighbours apart.

    p e^epsilon / (1 + p (e^epsilon - 1)), by Bayes' rule: a release is at most e^epsilon times as likely
    under the one table as under the other. What delta adds is left out.

    Args:
        prior: p, how likely they thought it before; in [0, 1].
    """
    return prior / (prior + (1 - prior) * math.exp(-float(contract.whole.epsilon)))


def contract_words(options: Options) -> str | None:
    """Return the accuracy contract of a session in words; None where there is none."""
    if options.bar_limit is None:
        return None
    return (
        f"each count within {options.bar_limit:,.0f} records ({100 * (options.accuracy or 0):g}% of "
        f"{options.records:,}) at {100 * options.confidence:g}% confidence, or refused"
    )


def display_words(options: Options) -> str | None:
    """Return which numbers a session withholds, in words; None where it shows all."""
    least, persons = options.least_records, options.minimum_count
    if least is None:
        return None
    records = "" if least == persons else f" ({least:,} records)"
    return f"numbers that may be of fewer than {persons:,} persons{records} are withheld"
