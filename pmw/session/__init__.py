"""Sessions: a durable dialogue with its engine, its file, its verification and its upkeep."""

from __future__ import annotations

__all__: list[str] = []
