"""Privacy: the budget and its filter, random bits, exact noise and its tail bounds."""

from __future__ import annotations

__all__: list[str] = []
