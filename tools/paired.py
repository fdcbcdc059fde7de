"""Differences of two ways to do the same, measured alternately."""

import random


def difference(runs, one, other, draws=2000):
    """The difference of the means of `one` and `other` in percent, and the ends of its 95 % interval: a bootstrap over runs."""
    stream = random.Random(1)
    pairs = [(run[one], run[other]) for run in runs]

    def ratio(some):
        return 100 * (sum(a for a, _ in some) / sum(b for _, b in some) - 1)

    drawn = sorted(ratio(stream.choices(pairs, k=len(pairs))) for _ in range(draws))
    return ratio(pairs), drawn[int(0.025 * draws)], drawn[int(0.975 * draws)]
