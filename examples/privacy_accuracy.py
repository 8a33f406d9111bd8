"""Privacy against accuracy: the loop, an update of one's own and MWEM on one histogram, side by side."""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from pmw.online import Correction, Options, PrivateMultiplicativeWeights, UpdateRule
from pmw.public.options import TestKind
from pmw.research.baselines import mwem
from pmw.research.offline import OfflineOptions, Targets

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--plot", help="draw a picture into this file")
path = parser.parse_args().plot

generator = np.random.default_rng(1)
counts = generator.multinomial(20_000, generator.dirichlet(np.full(48, 0.3))).reshape(6, 8)
questions = generator.integers(0, 2, (60, 6, 8))
options = Options(test=TestKind.QUERY, seed=2)


def wider(correction: Correction) -> ArrayLike:
    return correction.weights * 2 * (correction.measured - correction.estimate) / correction.total


def online(epsilon: float, update: UpdateRule | None = None) -> ArrayLike:
    loop = PrivateMultiplicativeWeights(counts, epsilon, 1e-6, update=update, options=options)
    return [loop.answer(question).count for question in questions]


def offline(epsilon: float) -> ArrayLike:
    rounds = OfflineOptions(Targets.QUERY, 40, policy=options)
    return mwem(counts, list(questions), epsilon=epsilon, delta=1e-6, options=rounds).answers().count


epsilons = [0.1, 0.3, 1, 3]
methods: dict[str, Callable[[float], ArrayLike]] = {
    "the loop": online,
    "steps of one's own": lambda epsilon: online(epsilon, wider),
    "MWEM, 40 rounds": offline,
}
true = (questions * counts).sum(axis=(1, 2))
errors = {
    name: [float(np.abs(np.asarray(method(one)) - true).mean()) for one in epsilons]
    for name, method in methods.items()
}
print(f"{'mean error at epsilon':24}", *(f"{one:8}" for one in epsilons))
for name, found in errors.items():
    print(f"{name:24}", *(f"{one:8.0f}" for one in found))
if path:
    import matplotlib.pyplot as plt

    for name, found in errors.items():
        plt.loglog(epsilons, found, marker="o", label=name)
    plt.legend()
    plt.savefig(path)
