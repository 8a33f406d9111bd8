"""The secret part of a session's state: a type of its own, so that it cannot pass for public."""

from __future__ import annotations

from pmw.sparse_vector import NoisyThreshold
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class SecretState:
    """What must never be shown: the noise of the open rounds.

    The data themselves stay behind a count source, and intent bytes live from an intent to its outcome only.

    Args:
        thresholds: of each tier, the threshold noise of its open round; None where none is open.
    """

    thresholds: tuple[NoisyThreshold | None, ...]

    @classmethod
    def closed(cls, tiers: int) -> SecretState:
        """Return the state in which none of so many tiers has an open round."""
        return cls((None,) * tiers)

    def after(self, tier: int, kept: NoisyThreshold | None) -> SecretState:
        """Return the state after a batch of one tier, with the threshold noise that it keeps."""
        return SecretState((*self.thresholds[:tier], kept, *self.thresholds[tier + 1 :]))

    def __repr__(self) -> str:
        return "SecretState(not shown)"
