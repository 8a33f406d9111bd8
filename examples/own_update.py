"""An update of one's own in the loop: steps that become shorter, on a histogram, in ten lines."""

import numpy as np
from numpy.typing import NDArray

from pmw.online import Correction, Options, PrivateMultiplicativeWeights


def falling_steps(correction: Correction) -> NDArray[np.float64]:
    """Return the exponents of a step in proportion to the measured error, shorter the more there were."""
    gap = (correction.measured - correction.estimate) / correction.total
    exponents: NDArray[np.float64] = correction.weights * (4 * gap / np.sqrt(1 + correction.updates))
    return exponents


counts = np.random.default_rng(1).integers(0, 500, (6, 4)) * [1, 6, 3, 0]
options = Options(seed=2)  # repeatable noise, so that this script always prints the same: no privacy
loop = PrivateMultiplicativeWeights(counts, 1, 1e-9, update=falling_steps, threshold=150, options=options)
for row in range(6):
    weights = np.zeros((6, 4))
    weights[: row + 1, 1:3] = 1
    answer = loop.answer(weights)
    print(f"{answer.count:6.0f} {answer.source.value:10} true {(weights * counts).sum():6.0f}")
print(loop)
