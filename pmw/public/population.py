"""Population: an interval for what a condition holds for in the population that the table is a sample of.

The interval of an answer is about the records of the table. Where these are a simple random sample of a
population, of people each of whom is drawn independently of the others, a second interval holds for the
population. It takes noise and sampling together, each with half of what may fail, and is arithmetic on
released numbers: it costs nothing and draws nothing. It holds for a question that was chosen without looking
at anything about the sample. The proof is in ``docs/intervals.md``.
"""

from __future__ import annotations

from pmw.privacy.proportions import proportion_high, proportion_low
from pmw.public.bars import Bars, ends_in_order, hard_ends_of
from pmw.public.free_answers import ModelAnswers
from pmw.public.state import PublicState
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery


@dataclass(frozen=True, slots=True)
class PopulationInterval:
    """An interval for the fraction of a population that a condition holds for.

    Args:
        low: fraction, in [0, 1].
        confidence: over the draw of the sample and of all noise, in (0, 1).
        people: how many people the sample is taken to hold; need not be whole.
    """

    low: float
    high: float
    confidence: float
    people: float

    def to_dict(self) -> dict[str, float]:
        """Return a form ready for JSON, the value of ``population``."""
        return {"low": self.low, "high": self.high, "confidence": self.confidence}

    def sentence(self) -> str:
        """Return the interval in words."""
        return (
            f"of the population that the table is a simple random sample of, between {self.low:.2%} and "
            f"{self.high:.2%} at {self.confidence:.0%} confidence"
        )


class PopulationIntervals:
    """Gives the intervals of questions in one state.

    They rest on what was released about marginals and the number of records. What a single question's own
    test or measurement said is not in them.
    """

    def __init__(self, state: PublicState) -> None:
        self.state = state
        self._bars = Bars(state, beside=1)  # the other event: what the sample says
        options = state.contract.options
        limited = options.bar_limit is not None or options.least_records is not None
        self._answers = ModelAnswers(state) if limited else None
        number = self._bars.everybody(1.0)
        value, width = float(number.value), float(number.half_width)
        self._everybody = max(0.0, value - width), value + width

    def now(self, state: PublicState) -> PopulationIntervals:
        """Return what gives them in a later state: the same where nothing came in."""
        return self if state is self.state else PopulationIntervals(state)

    def of(self, query: LinearQuery) -> PopulationInterval | None:
        """Return the interval of a question; None where its count is refused or withheld."""
        require_condition(query)
        bar, options = self._bars.of_query(query), self.state.contract.options
        if self._answers is not None:
            found = self._answers.answer(query)
            if found.is_refused or found.count < (options.least_records or 0):
                return None
        low, high = map(float, ends_in_order(bar.low, bar.high, hard_ends_of(self.state)))
        return population_interval(
            (low, high), self._everybody, options.records_per_person, options.confidence
        )


def population_interval(
    count: tuple[float, float], everybody: tuple[float, float], records_per_person: int, confidence: float
) -> PopulationInterval:
    """Return the interval of a fraction of the population, from those of two numbers of a sample.

    Clopper and Pearson's interval, at half of what may fail, of the least and the greatest fraction c/N in a
    sample of n people. The fewer people, the wider. Where N may be 0 nothing is known: 0 to 1.

    Several records of one person may be alike. Then N records say as much as N/K independent ones, and never
    less: K is the largest design effect, the ratio of variances (Kish 1965). So n = N/K. For K = 1 the
    interval is exact; for K > 1 the guarantee is that of the design effect.

    Args:
        count: ends of the number c of records that the condition holds for.
        everybody: ends of the number N of all records; both hold together with 1 - (1 - confidence)/2.

    Source: Clopper and Pearson (1934).
    """
    fewest, most = everybody
    if fewest <= 0:
        return PopulationInterval(0.0, 1.0, confidence, 0.0)
    people = fewest / records_per_person
    least = min(max(count[0], 0.0) / most, 1.0)
    greatest = min(max(count[1], 0.0) / fewest, 1.0)
    tail = (1 - confidence) / 4
    low = proportion_low(least * people, people, tail)
    high = proportion_high(greatest * people, people, tail)
    return PopulationInterval(float(low), float(high), confidence, people)


def require_condition(query: LinearQuery) -> None:
    """Refuse a question with weights other than 0 and one record.

    Of sums of other weights Clopper and Pearson's interval is not proved.
    """
    if query.readings is None and not (query.aligned and query.is_whole):
        raise QueryError(
            "an interval of the population is of a condition, which a record meets or does not; the question "
            "has other weights than 0 and 1",
            code="unsupported",
        )
