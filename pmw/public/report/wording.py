"""Wording: what a session promises, in the words of a reader who is no specialist."""

from __future__ import annotations

import math

from pmw.display.texts import counted, isolated
from pmw.privacy.budget import NeighboringRelation
from pmw.public.contract import Contract


def confidence_text(confidence: float) -> str:
    """Return a confidence as a percentage."""
    return f"{100 * confidence:g}%"


def promise(contract: Contract) -> list[str]:
    """Return what is promised, a paragraph each; the last one alone says it in short."""
    if contract.seeded:
        return [
            "Nothing is promised. The noise of this session was made from a known seed, so anybody can "
            "repeat it and take it away. Such a session is for tests: do not publish its numbers."
        ]
    changed, guessed = "any one person's data are replaced by others", "which of two possible sets of data"
    if _is_adding(contract):
        changed, guessed = "any one person is taken out of the table, or one is added", "whether"
    delta = float(contract.budget.delta)
    beyond = f", but for a probability of {delta:g}" if delta else ""
    return [
        f"Nothing that this session releases becomes more than {_factor(contract)} times as likely, or as "
        f"unlikely, if {changed}{beyond}. That holds for all answers, tables and files of the "
        "session taken together, whatever else a reader knows.",
        f"Take somebody who has to guess, from everything released, {guessed} a certain person "
        f"{'is' if _is_adding(contract) else 'has'} in the table. Without the session the guess would be "
        f"right 50% of the time. With it, it is right at most {_best_guess_text(contract)} of the time.",
    ]


def _factor(contract: Contract) -> str:
    """Return e^epsilon, rounded up in its third digit or in whole numbers."""
    factor = math.exp(min(float(contract.budget.epsilon), 700.0))
    if factor < 100:
        return f"{math.ceil(100 * factor - 1e-9) / 100:.2f}"
    return f"{math.ceil(factor):,}" if factor < 1e9 else f"{factor:.1e}"


def _best_guess_text(contract: Contract) -> str:
    """Return ``best_guess`` as a percentage, rounded up, with as many digits as tell it from certainty."""
    missing = 100 * (1 - best_guess(contract))
    if missing < 1e-6:
        return "100%"
    digits = 1 if missing >= 1 else 1 - math.floor(math.log10(missing))
    return f"{100 - math.floor(missing * 10**digits) / 10**digits:.{digits}f}%"


def _is_adding(contract: Contract) -> bool:
    return contract.options.neighboring_relation is NeighboringRelation.ADD_REMOVE


def best_guess(contract: Contract) -> float:
    """Return how often a guess between two neighbouring tables, equally likely, is right at most.

    (e^epsilon + delta) / (1 + e^epsilon).

    Source: Kairouz, Oh and Viswanath (2015), Theorem 2.1, at equal prior probabilities.
    """
    epsilon, delta = float(contract.budget.epsilon), float(contract.budget.delta)
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def about_whom(contract: Contract) -> str:
    """Return whom the promise is about."""
    person, records = contract.domain.person, contract.options.records_per_person
    most = counted(records, "record")
    if person is None:
        return (
            f"The promise is about each person with at most {most} in the table. That nobody has more was "
            "declared by the custodian and not checked: a person with more is protected less."
        )
    empty = " A record without an id counts as a person of its own." if person.empty == "person" else ""
    return (
        f"The promise is about each person. A person is one value of the column {isolated(person.column)}. "
        f"At most {most} of each {'was' if records == 1 else 'were'} kept, and the others were left out "
        f"before anything was counted.{empty}"
    )


def limits(contract: Contract) -> list[str]:
    """Return what is not promised, a sentence each."""
    public = (
        "The number of records is exact. It is the same in both tables that are compared, so it is public."
    )
    return [
        "It is no promise about groups. What is true of many people is meant to be found, and may be applied "
        "to a person whether or not that person is in the table.",
        "The names of attributes and values, and the questions that were asked, are public.",
        "It covers this session. Other releases from the same table come on top of it.",
        *([public] if contract.options.public_count else []),
    ]


def error_words(contract: Contract) -> list[str]:
    """Return what an error bar says, a paragraph each."""
    options = contract.options
    confidence = confidence_text(options.confidence)
    together = (
        f"All error bars of this session hold together with a probability of at least {confidence}."
        if options.simultaneous
        else f"Each error bar holds with a probability of at least {confidence}; of many bars, some may miss."
    )
    return [
        "Each number was changed by noise on purpose before it was released: that protects people. How much "
        "noise is public, so an answer can say how far it may be off. This is its error bar. " + together,
        "These are errors of noise and of the model. Errors of the table itself, such as wrong or missing "
        "records, come on top and cannot be seen from here.",
    ]
