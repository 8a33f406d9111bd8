"""What a drafted schema says of the table that its values were read off: digests that tell it again."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from queries.errors import DomainError

DRAFTED_FROM = "drafted_from"  # the key
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def load_drafted_from(path: str | Path) -> tuple[str, ...]:
    """Return the digests in a schema file that ``load_schema`` has read; none where it was not drafted so."""
    return tuple(tomllib.loads(Path(path).read_text("utf-8-sig")).get(DRAFTED_FROM, ()))


def require_digests(given: object) -> None:
    """Refuse what is no list of digests.

    Raises:
        DomainError: it is none.
    """
    if not isinstance(given, list) or not all(
        isinstance(one, str) and _DIGEST.fullmatch(one) for one in given
    ):
        raise DomainError(
            f"{DRAFTED_FROM} must be the list of digests that a draft wrote; copy it whole, or leave it out",
            key=DRAFTED_FROM,
        )
