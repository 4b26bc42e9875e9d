"""Exchanges in many worlds with JAX, on its default device: a GPU where it finds one.

All that an exchange consists of is compiled into one program, the shares of a link in all worlds
included. Numbers are float64, so that results are those of NumPy up to rounding.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.extras import missing
from fedsim.physics.radios import RadioStage, States
from fedsim.ports import Array
from fedsim.robustness.exchange import play_exchange
from fedsim.robustness.fleets import Clients, Lanes
from fedsim.robustness.loads import Load

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    text = missing("Pricing with arrays of JAX", "JAX", "jax")
    raise ModuleNotFoundError(text, name="jax") from None

_STATIC: dict[Any, tuple[str, ...]] = {
    Clients: ("stateful", "paged"),
    Lanes: ("contended",),
    RadioStage: ("name",),
    States: (),
}
"""The fields that are no arrays, by class: programs are compiled for each of their values."""


class JaxExchanges:
    """Computes exchanges with JAX; see `fedsim.robustness.exchange.NumpyExchanges`."""

    def __init__(self, clients: Clients) -> None:
        self._play = _program()
        self._clients = clients
        with jax.enable_x64(True):  # noqa: FBT003 - as JAX has it
            self._on_device = jax.device_put(clients)

    def __call__(self, load: Load, last: Array, stage: NDArray[np.integer]) -> tuple[Array, Array]:
        """See `NumpyExchanges.__call__`."""
        whole = isinstance(load.clients, slice)
        clients = self._on_device if whole else self._clients.of(load.clients)
        with jax.enable_x64(True):  # noqa: FBT003 - as JAX has it
            own = load._replace(clients=np.empty(0, np.intp))  # they are chosen already
            came, spent = self._play(clients, own, last, stage)
            return np.asarray(came), np.asarray(spent)


@cache
def _program() -> Callable[..., tuple[Any, Any]]:
    """Return the compiled program of an exchange."""
    for cls, static in _STATIC.items():
        data = [name for name in cls.__dataclass_fields__ if name not in static]
        jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=list(static))

    def play(clients: Any, load: Any, last: Any, stage: Any) -> Any:  # noqa: ANN401 - traced
        return play_exchange(clients, load, last, stage, _share)

    compiled: Callable[..., tuple[Any, Any]] = jax.jit(play)
    return compiled


def _share(lanes: Lanes, began: Any, bits: Any) -> Any:  # noqa: ANN401 - traced
    """Share a link max-min fairly, as `fedsim.robustness.sharing.ends` does, in all worlds at once.

    From one change to the next, the begin or the end of a transfer, rates are constant. Worlds
    whose transfers are all over wait for the others.
    """
    caps, capacity = lanes.rate, jnp.asarray(lanes.capacity)
    order = jnp.argsort(caps, axis=0)
    first = began.min(axis=0)
    lasts = began - first  # until a transfer ends, or begins
    state = first, bits + 0.0 * began, began <= first, lasts, jnp.full_like(began, jnp.inf)

    def unfinished(state: Any) -> Any:  # noqa: ANN401 - traced
        return jnp.isinf(state[-1]).any()

    def change(state: Any) -> Any:  # noqa: ANN401 - traced
        now, left, flows, lasts, over = state
        rates = jnp.minimum(caps, _level(flows, caps, order, capacity))
        lasts = jnp.where(flows, jnp.where(left > 0.0, left / rates, 0.0), lasts)
        step = lasts.min(axis=0)
        begins = (lasts <= step) & (began > now)
        then = jnp.where(begins, began, -jnp.inf).max(axis=0)
        then = jnp.where(jnp.isfinite(then), then, now + step)  # a begin has its exact time
        ended = flows & (lasts <= step)
        left = jnp.where(flows, jnp.maximum(left - rates * jnp.where(flows, step, 0.0), 0.0), left)
        waiting = ~flows & (lasts < jnp.inf)
        over = jnp.where(ended, then, over)
        flows = (flows & ~ended) | (waiting & (began <= then))
        lasts = jnp.where(waiting, began - then, jnp.where(ended, jnp.inf, lasts))
        return jnp.where(jnp.isfinite(step), then, now), left, flows, lasts, over

    return jax.lax.while_loop(unfinished, change, state)[-1]


def _level(flows: Any, caps: Any, order: Any, capacity: Any) -> Any:  # noqa: ANN401 - traced
    """Return the rate that no transfer exceeds, bit/s, shape (W,); infinite for none.

    See `fedsim.robustness.sharing.fair_level`.
    """
    own = jnp.take_along_axis(flows, order, axis=0)
    wanted = jnp.where(own, jnp.take_along_axis(caps, order, axis=0), 0.0)
    before = jnp.cumsum(wanted, axis=0) - wanted
    rest = own.sum(axis=0) - jnp.cumsum(own, axis=0) + own
    share = (capacity - before) / jnp.maximum(rest, 1)
    short = own & (wanted > share)
    level = jnp.take_along_axis(share, short.argmax(axis=0)[None], axis=0)[0]
    some = short.any(axis=0) & (wanted.sum(axis=0) > capacity)
    return jnp.where(some, level, jnp.inf)
