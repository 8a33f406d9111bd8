"""What no session runs: audits, the offline variant, applications, further sparse vectors."""

from __future__ import annotations

__all__: list[str] = []
