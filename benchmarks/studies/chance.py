"""What chance alone gives: the yardstick of every study here."""

from __future__ import annotations

import math

_Z95 = 1.959963984540054


def expected_collisions(keys: int, bits: int = 32) -> float:
    """Keys that find their value taken, when n keys get values of ``bits`` bits at random: n - m (1 - (1 - 1/m)**n)."""
    values = 2.0**bits
    return keys + values * math.expm1(keys * math.log1p(-1 / values))


def poisson_range(mean: float) -> tuple[int, int]:
    """The range that 95% of counts with this mean lie in, at most 2.5% beyond either end."""
    low = None
    count, below = 0, 0.0
    while True:
        below += math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) if mean else 1.0
        if low is None and below > 0.025:
            low = count
        if below >= 0.975:
            return low or 0, count
        count += 1


def rate_range(hits: int, trials: int) -> tuple[float, float]:
    """The 95% interval of a rate seen as ``hits`` of ``trials`` (Wilson, 1927)."""
    if not trials:
        return 0.0, 1.0
    seen, z2 = hits / trials, _Z95**2
    middle = (seen + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z95 / (1 + z2 / trials) * math.sqrt(seen * (1 - seen) / trials + z2 / (4 * trials**2))
    return max(0.0, middle - half), min(1.0, middle + half)
