"""The secret part of a session's state: a type of its own, so that it cannot pass for public."""

from __future__ import annotations

from dataclasses import dataclass

from pmw.sparse_vector import NoisyThreshold

__all__ = [
    "SecretState",
]


@dataclass(frozen=True, slots=True, repr=False)
class SecretState:
    """What must never be shown: the noise of the open round.

    The data themselves stay behind a count source, and intent bytes live from an intent to its outcome only.

    Args:
        noisy: threshold noise of the open round; None where none is open.
        queries: the same of the test of single questions, where marginals are tested beside them.
    """

    noisy: NoisyThreshold | None
    queries: NoisyThreshold | None = None

    def __repr__(self) -> str:
        return "SecretState(not shown)"
