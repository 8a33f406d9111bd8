"""Pictures of what may be published. matplotlib is optional, and imported when a picture is drawn."""

from pmw.public.plots.canvas import (
    INK,
    MEASURED,
    MODEL,
    MissingLettersWarning,
    check_kind,
    check_target,
    new_figure,
    tidy,
    write_figure,
)
from pmw.public.plots.figure import status_figure

__all__ = [
    "check_kind",
    "check_target",
    "INK",
    "MEASURED",
    "MissingLettersWarning",
    "MODEL",
    "new_figure",
    "status_figure",
    "tidy",
    "write_figure",
]
