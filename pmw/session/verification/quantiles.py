"""The error quantiles, against the rule that they follow from; no error is looked at again."""

from __future__ import annotations

from pmw.display.texts import counted
from pmw.planning.error_quantiles import SHARE, is_due
from pmw.privacy.budget import Composition
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.charges import Event, quantile_entry
from pmw.session.store import SessionStore
from pmw.session.verification.contents import Contents
from pmw.session.verification.report import require, same


def quantiles_fit(contents: Contents, store: SessionStore) -> str:
    """Check that each error quantile was due, was paid for once, and that all of them cost what they may.

    Raises:
        SessionCorruptError: it is not so.
    """
    found, cap = contents.quantiles(), contents.cap
    options, answers = contents.contract.options, store.answers.count()
    settled = [store.answers.settled_count(one.asked) for _, one in found]
    entries = [quantile_entry(one.kind.describe(), one.noise, options) for _, one in found]
    paid = zip(contents.intents[len(contents.opening_charges) :], contents.later, strict=True)
    charged = [(intent, entry.label) for intent, entry in paid if entry.event == Event.QUANTILE]
    pairs = [(intent, entry.label) for (intent, _), entry in zip(found, entries, strict=True)]
    same("charges for error quantiles", pairs, charged)
    kind = DiscreteLaplace if cap.composition is Composition.PURE else DiscreteGaussian
    last, seen = 0, set()
    for number, (_, one) in enumerate(found, start=1):
        what = f"error quantile {number}"
        due = settled[number - 1]
        require(is_due(due) and last <= one.asked <= answers, f"{what} was not due after {due} questions")
        require((one.kind, due) not in seen, f"{what} is there twice")
        require(0 < one.questions <= due, f"{what} is of {one.questions} of {due} questions")
        same(f"noise of {what}", kind, type(one.noise))
        last = one.asked
        seen.add((one.kind, due))
    cost = sum(cap.price(entry.charge) for entry in entries)
    require(cost <= cap.cap * SHARE, f"error quantiles cost {float(cost / cap.cap):.1%} of the budget")
    return counted(len(found), "error quantile")
