"""What is left after a power loss is enough: nothing is missing, nothing stands twice."""

from __future__ import annotations

import pytest

from tests.durability.power import live

ROUNDS = 200


def test_power_losses_lose_nothing() -> None:
    cuts = 0
    for seed in range(ROUNDS):
        life = live(seed)
        cuts += life.cuts
        assert not life.missing, f"seed {seed}: {sorted(life.missing)[:5]} are on one side only"
        assert not life.twice, f"seed {seed}: {life.twice[:5]} stand twice in the output"
    assert cuts > ROUNDS, "the power was hardly ever lost: the test proves nothing"


@pytest.mark.parametrize("seed", range(3))
def test_a_life_is_the_same_each_time(seed: int) -> None:
    assert live(seed) == live(seed)
