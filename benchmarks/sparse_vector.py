"""Sparse vector benchmark: margins of the mechanisms, selection of the top c, the variants side by side.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.sparse_vector [--part margins] [--data-dir DIR] [--text]

prints JSON lines. Five parts:

* ``variants``: the algorithms that Lyu, Su and Li (2017) compare, and what sets them apart;
* ``closed-forms``: alpha to find one score among k, AboveThreshold beside the exponential mechanism;
* ``margins``: how far from the threshold a value must be to be told right (``benchmarks/sparse_margins.py``);
* ``selection``: false negative and score error rates of the paper's Section 6
  (``benchmarks/sparse_selection.py``), on Zipf counts and on the tables of ``--data-dir`` (or PMW_DATA_DIR).
  Counts are public: noise is seeded, most of it in floating point, and every line says which. A prefix of a
  table of the paper is run at the epsilon given and at that times the factor by which records are missing.
* ``flawed-proof``: the argument of the paper's Appendix 9.3, on Algorithm 1 .

``cpu_seconds`` are of the process; the line of part ``cost`` at the end of a part gives them for the whole of
it. ``--text`` prints tables instead, ``--plot DIR`` also draws the margins. ``--figure 4`` draws Figure 4 of
the paper under that number, and runs its methods alone; so do 3 and 5.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from benchmarks.runner import parser, skipping, tell
from benchmarks.sparse_margins import BETA, EPSILON, Scales, Stream, best_split, margin, margin_lines
from benchmarks.sparse_selection import COUNTS, LIMITS, METHODS, Counts, Plan, read_counts, selection_lines
from pmw.display.figures import new_figure, tidy
from pmw.planning.theorems import above_threshold_accuracy
from pmw.research.audit import tables_of
from pmw.research.sparse_vectors import algorithm_1
from pmw.sparse_vector import AboveThreshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PARTS = ("variants", "closed-forms", "margins", "selection", "flawed-proof")
CLOSED_FORMS = tuple(10**power for power in range(2, 7))  # numbers of scores
_PAPER = tuple(COUNTS)[:4]  # the paper's four, or what stands in for them

Lines: TypeAlias = Iterator[dict[str, object]]


def main() -> None:
    """Run the parts that the arguments name, or what the figures of the paper show."""
    given = _arguments()
    drawn = {name for number in given.figure or () for name in PAPER_FIGURES.get(number, ())}
    parts = (("selection",) if drawn else ()) if given.figure else given.part or _PARTS
    counts = _counts(given) if given.figure or "selection" in parts else []
    methods = tuple(name for name in METHODS if name in drawn or not drawn)
    plan = Plan(tuple(given.limit or LIMITS), given.runs, given.epsilon, given.seed, methods)
    makers: dict[str, Callable[[], Lines]] = {
        "variants": lambda: iter(VARIANTS),
        "closed-forms": closed_form_lines,
        "margins": margin_lines,
        "selection": lambda: (
            line for one in counts for line in _timed(one.name, selection_lines(one, plan))
        ),
        "flawed-proof": proof_lines,
    }
    lines: list[Line] = []
    for part in parts:
        for line in _timed(part, makers[part]()):
            lines.append(line)
            if not given.text:
                tell(line)
    if given.text:
        print(as_text(lines))
    folder = given.plot or Path("figures")
    if given.figure:
        _plot_paper(lines, counts, given.figure, folder)
    elif given.plot is not None and "margins" in parts:
        folder.mkdir(parents=True, exist_ok=True)
        margin_figure([line for line in lines if line["part"] == "margins"], folder / "sparse-margins.png")


def _arguments() -> argparse.Namespace:
    made = parser(__doc__, "data")
    made.add_argument("--part", action="append", choices=_PARTS, help="several may be named; all by default")
    made.add_argument("--counts", action="append", choices=[*COUNTS, "all"])
    made.add_argument("--limit", action="append", type=int, metavar="C", help="select C; 25, 50, ... 300")
    made.add_argument("--runs", type=int, default=100, help="of each method, for each C")
    made.add_argument("--epsilon", type=float, default=0.1, help="of a selection")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--text", action="store_true", help="print tables instead of JSON lines")
    made.add_argument("--plot", type=Path, metavar="DIR", help="draw the margins there")
    drawn = "draw the paper's figure of this number, figure-N.png in DIR, or in figures by default"
    made.add_argument("--figure", action="append", type=int, choices=(3, 4, 5), help=drawn)
    arguments = made.parse_args()
    if arguments.figure and arguments.part:
        made.error("--figure runs what it draws; leave out --part")
    if any(limit < 1 for limit in arguments.limit or ()) or arguments.runs < 1 or not arguments.epsilon > 0:
        made.error("expected --limit and --runs of at least 1, and --epsilon above 0")
    return arguments


def _counts(arguments: argparse.Namespace) -> list[Counts]:
    """Return the counts that were asked for and are there; the others are named on stderr with why."""
    names, found = arguments.counts or _PAPER, list[Counts]()
    for name in COUNTS if "all" in names else names:
        with skipping(name):
            found.append(read_counts(name, arguments.data_dir))
    return found


def _timed(what: str, lines: Lines) -> Lines:
    """Yield the lines, and then what they took."""
    started = time.process_time()
    yield from lines
    yield {"part": "cost", "of": what, "cpu_seconds": round(time.process_time() - started, 2)}


def _plot_paper(lines: list[Line], counts: list[Counts], numbers: list[int], folder: Path) -> None:
    """Draw figures of Lyu, Su and Li (2017) under their numbers, for the tables that are there."""
    if not counts:
        sys.exit("no counts to draw: each was skipped, for the reason above")
    folder.mkdir(parents=True, exist_ok=True)
    settings = {4: "interactive", 5: "non-interactive"}
    for number in dict.fromkeys(numbers):
        path = folder / f"figure-{number}.png"
        chosen = [line for line in lines if line["part"] == "selection"]
        if number == 3:
            score_figure(counts, path)
        elif chosen:
            rate_figure(chosen, PAPER_FIGURES[number], f"Figure {number}, {settings[number]} setting", path)
        else:
            sys.exit("nothing to draw: every c was skipped, for the reason above")
        print(f"wrote {path}", file=sys.stderr)


# --- text: the lines as tables ------------------------------------------------------------------------------

Line: TypeAlias = Mapping[str, Any]
MEASURES = {
    "ser": "score error rate over what was selected (SER, as the paper defines it)",
    "ser_filled": "score error rate, empty places as 0 (filled)",
    "fnr": "false negative rate (FNR)",
}
_BESIDE = 4  # values of c in a table


def as_text(lines: Sequence[Line]) -> str:
    """Return the tables of the parts that occur, in that order, with an empty line between them."""
    tables: list[str] = []
    for part, chosen in _grouped(lines, "part"):
        if part == "margins":
            tables += _margins(chosen)
        elif part == "selection":
            tables += _selection(chosen)
        elif part != "cost":
            tables.append(_aligned([list(chosen[0])[1:], *(list(line.values())[1:] for line in chosen)]))
    return "\n\n".join(tables)


def _grouped(lines: Iterable[Line], *names: str) -> Iterator[tuple[Any, list[Line]]]:
    """Yield the lines that have the same values of some names, with these values, in the lines' order."""
    groups: dict[Any, list[Line]] = {}
    for line in lines:
        values = tuple(line[name] for name in names)
        groups.setdefault(values if len(names) > 1 else values[0], []).append(line)
    yield from groups.items()


def _margins(lines: Iterable[Line]) -> Iterator[str]:
    for delta, chosen in _grouped(lines, "delta"):
        rows = [[f"margin at epsilon {EPSILON:g}, delta {delta:g} (times below the textbook's)"]]
        rows[0] += [f"k={k:,} c={c}" for (k, c), _ in _grouped(chosen, "queries", "positives")]
        for name, own in _grouped(chosen, "mechanism"):
            cells = (f"{line['margin']:.4g} ({line['textbook_over_margin']:.3g})" for line in own)
            rows.append([name, *cells])
        yield _aligned(rows)


def _selection(lines: Iterable[Line]) -> Iterator[str]:
    """Yield a table for each measure of each data set at each epsilon, a few c beside each other."""
    for (data, epsilon), chosen in _grouped(lines, "data", "epsilon"):
        limits = [limit for limit, _ in _grouped(chosen, "c")]
        of = "" if chosen[0]["epsilon_is"] == "as given" else f" ({chosen[0]['epsilon_is']})"
        for rate, name in MEASURES.items():
            heading = f"{name}, by c: mean (sd)"
            yield f"{data} ({chosen[0]['data_is']}), epsilon {epsilon}{of}:\n{heading}"
            for start in range(0, len(limits), _BESIDE):
                shown = limits[start : start + _BESIDE]
                rows = [["", *shown]]
                for method, own in _grouped(chosen, "method"):
                    cells = {line["c"]: f"{line[rate]:.3f} ({line[f'{rate}_sd']:.3f})" for line in own}
                    rows.append([method, *(cells[limit] for limit in shown)])
                yield _aligned(rows)


def _aligned(rows: Sequence[Sequence[object]]) -> str:
    texts = [[str(cell) for cell in row] for row in rows]
    first, *widths = (max(map(len, column)) for column in zip(*texts, strict=True))
    return "\n".join(
        "  ".join(
            [row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))]
        ).rstrip()
        for row in texts
    )


# --- variants -----------------------------------------------------------------------------------------------
# The sparse vector variants of Lyu, Su and Li (2017) at sensitivity 1, and selection in closed form.

_VARIANT = (
    "algorithm", "origin", "threshold_scale", "redrawn", "test_scale", "tells", "stops", "private"
)  # fmt: skip
_HALF = "2/e"  # 1/epsilon1 at epsilon1 = epsilon/2
VARIANTS = [
    {"part": "variants", **dict(zip(_VARIANT, variant, strict=True))}
    for variant in (
        (1, "Lyu, Su and Li 2017", _HALF, False, "4c/e", "above", True, "e"),
        (2, "Dwork and Roth 2014", "2c/e", True, "4c/e", "above", True, "e"),
        (3, "Roth 2011", _HALF, False, "2c/e", "value under the test's noise", True, "none"),
        (4, "Lee and Clifton 2014", "4/e", False, "4/(3e)", "above", True, "(1+6c)/4 e"),
        (5, "Stoddard et al. 2014", _HALF, False, "0", "above", False, "none"),
        (6, "Chen et al. 2015", _HALF, False, _HALF, "above", False, "none"),
        (7, "Lyu, Su and Li 2017", "1/e1", False, "2c/e2", "value under fresh noise c/e3", True, "e1+e2+e3"),
    )
]


def exponential_mechanism_accuracy(queries: int, *, epsilon: float, beta: float) -> float:
    """Return alpha of the exponential mechanism: (ln(k - 1) + ln((1 - beta)/beta)) / epsilon.

    With k - 1 scores at T - alpha and one at T + alpha, weights e^(epsilon score/2) find the one with
    probability e^(epsilon alpha) / (k - 1 + e^(epsilon alpha)), and this alpha makes it 1 - beta.

    Source: Lyu, Su and Li (2017), Section 5.
    """
    return (math.log(queries - 1) + math.log((1 - beta) / beta)) / epsilon


def closed_form_lines(*, epsilon: float = 1.0, beta: float = 0.05) -> Iterator[dict[str, object]]:
    """Yield a line for each k: alpha to find one score among k, by theorem and exactly.

    The exponential mechanism's form is exact; that of AboveThreshold is a union bound, so that its exact
    margin stands beside it, and that of exponential noise at the best split.
    """

    def exponential(share: float) -> Scales:
        return Scales("exponential", 1 / (share * epsilon), "exponential", 2 / ((1 - share) * epsilon))

    textbook = Scales.of(AboveThreshold.textbook(epsilon=epsilon).test, redrawn=False)
    for queries in CLOSED_FORMS:
        stream = Stream(queries, 1)
        offline = exponential_mechanism_accuracy(queries, epsilon=epsilon, beta=beta)
        theorem = above_threshold_accuracy(queries, epsilon=epsilon, beta=beta)
        best, _ = best_split(exponential, stream, beta)
        yield {
            "part": "closed-forms",
            "queries": queries,
            "epsilon": epsilon,
            "beta": beta,
            "alpha_svt": round(theorem, 2),
            "alpha_em": round(offline, 2),
            "ratio": round(theorem / offline, 2),
            "alpha_svt_exact": round(margin(textbook, stream, beta), 2),
            "alpha_exponential_noise_exact": round(best, 2),
        }


# --- proof --------------------------------------------------------------------------------------------------
# The flawed proof of Lyu, Su and Li's (2017) Appendix 9.3, run on Algorithm 1, which is private.
#
# All m values are 0 on one table and 1 on its neighbour, T = 0, and the output is m negatives. The proof
# wants to show that the ratio of its probabilities grows without bound. Given threshold noise z, a negative
# is more probable on the first table by a factor of more than 1. Let kappa be the least such factor for z in
# [-a, a], with a so wide that half of the output's probability lies there: the ratio is then at least kappa^m
# / 2.
#
# This holds, and shows nothing: as m grows, so does a, and kappa falls to 1. The ratio itself stays below
# e^(epsilon/2) for every m, as Lemma 1 says, and comes up to it.

_LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 1024)


def proof_lines(*, epsilon: float = 1.0) -> Iterator[dict[str, object]]:
    """Yield a line, ready for JSON, for each m.

    ``log_ratio`` is that of the output's probabilities, ``window`` is a, ``least_factor`` is kappa for this
    m, ``argued`` is m ln kappa - ln 2. ``argued_if_fixed`` is the same with the kappa of m = 1, as if it did
    not depend on m: the error of the proof.
    """
    tables = tables_of(algorithm_1(epsilon=epsilon, update_limit=1), 0)
    (weights,) = tables.weights
    (first,), (second,) = (tables.outcomes(value)[0] for value in (0, 1))
    distance = np.abs(np.arange(len(weights)) - len(weights) // 2)
    fixed = math.nan
    for length in _LENGTHS:
        here, there = weights * first**length, weights * second**length
        inside = np.bincount(distance, here).cumsum()
        window = int(np.searchsorted(inside, inside[-1] / 2))
        near = distance <= window
        kappa = float((first[near] / second[near]).min())
        fixed = kappa if math.isnan(fixed) else fixed
        yield {
            "part": "flawed-proof",
            "negatives": length,
            "epsilon": epsilon,
            "log_ratio": round(math.log(here.sum() / there.sum()), 4),
            "window": window,
            "least_factor": round(kappa, 4),
            "argued": round(length * math.log(kappa) - math.log(2), 3),
            "argued_if_fixed": round(length * math.log(fixed) - math.log(2), 3),
        }


# --- figures ------------------------------------------------------------------------------------------------
# Figures of the sparse vector benchmark: scores, error rates by number selected, and margins.
#
# ``PAPER_FIGURES`` are Figures 4 and 5 of Lyu, Su and Li (2017): our methods under the paper's names.

# One colour and mark for each line of a figure, in the order in which lines come.
_COLOURS = (
    "#555555", "#b8860b", "#1b7f5c", "#8f6bb3", "#0b3d91", "#d36ba6", "#c1440e", "#4aa3df", "#7a9a01",
    "#8b1a1a", "#00a19b",
)  # fmt: skip
_MARKS = ("P", "s", "^", "D", "o", "X", "v", "<", ">", "p", "h")
_BEST = "exponential mechanism"  # drawn in every panel: what can be done with all scores at hand
_RATES = {
    "ser": "SER, as the paper\ndefines it: over\nwhat was selected",
    "ser_filled": "score error rate,\nempty places as 0\n(filled)",
    "fnr": "false negative rate",
}
PAPER_FIGURES: dict[int, dict[str, str]] = {
    4: {
        "textbook Sparse": "SVT-DPBook",
        **{f"Laplace {ratio}": f"SVT-S-{ratio}" for ratio in ("1:1", "1:3", "1:c", "1:c^(2/3)")},
    },
    5: {
        "retraversal +0D": "SVT-ReTr-1:c^(2/3)",
        **{f"retraversal +{more}D": f"SVT-ReTr-1:c^(2/3)-{more}D" for more in range(1, 6)},
        _BEST: "EM",
    },
}
_SHOWN_SCORES = 300


def score_figure(counts: Sequence[Counts], path: Path) -> None:
    """Draw the highest scores by rank, a line for each data set."""
    figure = new_figure(7.5, 4.5)
    axes = figure.add_subplot()
    for colour, one in zip(itertools.cycle(_COLOURS), counts, strict=False):
        best = np.maximum(one.scores[:_SHOWN_SCORES], 1)
        axes.plot(np.arange(1, len(best) + 1), best, color=colour, label=f"{one.name} ({one.data_is})")
    axes.set(yscale="log", xlabel="rank", ylabel="score", title=f"The {_SHOWN_SCORES} highest scores")
    tidy(axes)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def rate_figure(lines: Sequence[Line], methods: Mapping[str, str], title: str, path: Path) -> None:
    """Draw the error rates against c: a column for each data set at each epsilon, bars of one deviation."""
    panels = list(_grouped([line for line in lines if line["method"] in methods], "data", "epsilon"))
    figure = new_figure(3.2 + 3.1 * len(panels), 8.6)
    grid = figure.subplots(len(_RATES), len(panels), squeeze=False, sharex=True, sharey="row")
    for column, (_, own) in zip(grid.T, panels, strict=True):
        column[0].set_title(_panel_title(own[0]), fontsize=9)
        column[-1].set_xlabel("c")
        limits = sorted({line["c"] for line in own})
        column[-1].set_xticks(limits[1::2] or limits)
        for axes, rate in zip(column, _RATES, strict=True):
            _draw_rate(axes, own, rate, methods)
    for axes, (rate, label) in zip(grid[:, 0], _RATES.items(), strict=True):
        axes.set_ylabel(label)
        if rate != "ser":  # which goes below 0 where few but high scores are selected
            axes.set_ylim(-0.03, 1.03)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    runs = lines[0]["runs"]
    figure.suptitle(f"{title}: mean of {runs} runs, bars of one standard deviation to either side")
    figure.savefig(path, dpi=110)


def _draw_rate(axes: Axes, lines: Sequence[Line], rate: str, methods: Mapping[str, str]) -> None:
    for place, (method, label) in enumerate(methods.items()):
        points = [(line["c"], line[rate], line[f"{rate}_sd"]) for line in lines if line["method"] == method]
        if points:
            places, means, deviations = np.array(points, dtype=np.float64).T
            beside = 2.0 * (place - (len(methods) - 1) / 2)  # so that bars do not cover each other
            bars: dict[str, Any] = {
                "elinewidth": 0.8,
                "capsize": 1.5,
                **_style(place, dashed=method == _BEST),
            }
            axes.errorbar(places + beside, means, deviations, label=label, **bars)
    tidy(axes)


def _panel_title(line: Line) -> str:
    of = "" if line["epsilon_is"] == "as given" else f"\n({line['epsilon_is']})"
    return f"{line['data']} ({line['data_is']})\nepsilon {line['epsilon']}{of}"


def margin_figure(lines: Sequence[Line], path: Path) -> None:
    """Draw margins against c for the longest stream: a panel for each budget, a line for each mechanism."""
    longest = max(line["queries"] for line in lines)
    budgets = list(_grouped([line for line in lines if line["queries"] == longest], "delta"))
    figure = new_figure(7.0 * len(budgets), 4.8)
    grid = figure.subplots(1, len(budgets), squeeze=False, sharey=True)[0]
    for axes, (delta, own) in zip(grid, budgets, strict=True):
        for place, (name, some) in enumerate(_grouped(own, "mechanism")):
            points = [(line["positives"], line["margin"]) for line in some]
            axes.plot(*zip(*points, strict=True), label=name, **_style(place))
        axes.set(xscale="log", yscale="log", xlabel="c, positives")
        ticks = sorted({line["positives"] for line in own})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_title(f"epsilon {EPSILON:g}, delta {delta:g}".replace("e-0", "e-"))
        tidy(axes)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    grid[0].set_ylabel(f"margin, k = {longest:,} queries, beta {BETA}")
    figure.savefig(path, dpi=130)


def _style(place: int, *, dashed: bool = False) -> dict[str, Any]:
    if dashed:
        return {"color": "#000000", "linestyle": "--", "linewidth": 1.5}
    return {"color": _COLOURS[place], "marker": _MARKS[place], "markersize": 4, "linewidth": 1.5}


if __name__ == "__main__":
    main()
