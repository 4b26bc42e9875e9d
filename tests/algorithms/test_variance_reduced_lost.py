"""DIANA and MARINA lose nothing of what their clients hold, whatever the network does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.algorithms.marina import MarinaState
from fedsim.core.ports import Array
from fedsim.wire import Dense, ValueFormat
from tests.algorithms.local_loops import SIZES, local
from tests.algorithms.sums import LOSSY, NETWORKS, RANDOM, Exchange, gaps, watched

GAMMA = 0.2
OMEGA = 6 / 2 - 1

ALPHA = 1 / (1 + OMEGA)
HELD: dict[str, Any] = {
    "diana": (lambda shift, _: shift.h, lambda message: ALPHA * message.d.values),
    "marina": (lambda estimate, _: estimate.g, lambda message: message.d.values),
}


def direction(kind: str, exchange: Exchange) -> Array | float:
    """Return g, which stands on all that was told; DIANA's d_i are of this round."""
    if kind == "marina":
        return np.asarray(exchange.after) if exchange.heard else 0.0
    if not exchange.answers:
        return 0.0
    h, sent = exchange.after - exchange.fresh, exchange.fresh / ALPHA
    return np.asarray(h + len(SIZES) / exchange.answers * sent)


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_server_holds_what_the_clients_do_whatever_is_lost(
    kind: str, network: str, tmp_path: Path
) -> None:
    algorithm = {"kind": kind, "step_size": GAMMA}
    blocks = NETWORKS[network] | {"wire": RANDOM}
    scenario = {"problem": local(tmp_path).block, "algorithm": algorithm} | blocks
    seen = watched(scenario, tmp_path, *HELD[kind])
    seen.check_lateness(network)
    assert max(seen.errors) < 1e-12
    seen.check_steps(GAMMA, lambda exchange: direction(kind, exchange))


@pytest.mark.slow
@pytest.mark.parametrize("kind", HELD)
def test_they_end_at_the_optimum_though_a_third_is_lost(kind: str, tmp_path: Path) -> None:
    algorithm = {"kind": kind, "step_size": "0.08/L"}
    gap = gaps(local(tmp_path), algorithm, RANDOM, 900, **LOSSY)
    assert gap[-1] < 1e-10 * gap[0]


Tells = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.booleans()), max_size=12)


@given(Tells)
def test_what_is_taken_back_was_never_told(tells: list[tuple[int, int, bool]]) -> None:
    """In whole numbers, which add up exactly; lost messages become known in any order."""
    estimate, kept = MarinaState(1), MarinaState(1)
    lost = []
    for d, step, gone in tells:
        payload = Dense.of(np.array([float(d)]), ValueFormat.FLOAT64)
        told = estimate.record(payload, estimate.gradient + step)
        if gone:
            lost.append(told)
        else:
            kept.record(payload, kept.gradient + step)
    for told in lost[::-2] + lost[-2::-2]:
        estimate.take_back(told)
    assert estimate.g == kept.g
    assert estimate.gradient == kept.gradient
