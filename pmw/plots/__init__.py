"""Pictures of what may be published. matplotlib is optional, and imported when a picture is drawn."""

from pmw.plots.canvas import (
    INK,
    MEASURED,
    MODEL,
    check_kind,
    check_target,
    new_figure,
    tidy,
    write_figure,
)
from pmw.plots.comparison import (
    MarginalComparison,
    bought_deviations,
    compare_marginals,
    farthest,
    paid_deviations,
)
from pmw.plots.figure import status_figure
from pmw.plots.letters import MissingLettersWarning

__all__ = [
    "bought_deviations",
    "check_kind",
    "check_target",
    "compare_marginals",
    "farthest",
    "INK",
    "MarginalComparison",
    "MEASURED",
    "MissingLettersWarning",
    "MODEL",
    "new_figure",
    "paid_deviations",
    "status_figure",
    "tidy",
    "write_figure",
]
