"""What a world is made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fedsim.physics.devices import DeviceModel
from fedsim.physics.radios import RadioModel
from fedsim.ports import Array, Oracle, Payload
from fedsim.sim.client import Handler
from fedsim.sim.evaluator import Evaluator, SerialEvaluator
from fedsim.sim.network.lanes import ServerLink
from fedsim.sim.silence import SilencePolicy
from fedsim.sim.stopping import StopRules


class Method(Protocol):
    """What the world needs of an algorithm: `fedsim.algorithms.Algorithm` has it."""

    async def serve(self, server: Any) -> None:  # noqa: ANN401
        """Run the server."""

    @property
    def handle(self) -> Handler:
        """Answer a message that has reached a client."""
        ...

    def memory(self, initial: Array) -> Any:  # noqa: ANN401
        """Return a client's memory."""


@dataclass(frozen=True, slots=True)
class Member:
    """One client of the fleet, and the loss that lies on it."""

    device: DeviceModel
    radio: RadioModel
    oracle: Oracle


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a world is made of.

    Attributes:
        algorithm: configured.
        fleet: the clients in order.
        initial: the initial model, shape (d,).
        smoothness: returns L_m of the clients, shape (M,).
        evaluate: returns the objective at a model; costs no simulated time.
        optimum: the least objective; NaN where none is known.
        measures: what else to evaluate at every model, by name.
        pack_up, pack_down: encode a vector for either direction.
        header_bits: in front of every message.
        rng: returns the random stream of a purpose and an entity.
    """

    algorithm: Method
    fleet: Sequence[Member]
    initial: Array
    smoothness: Callable[[], Array]
    evaluate: Callable[[Array], float]
    optimum: float
    pack_up: Callable[[Array], Payload]
    pack_down: Callable[[Array], Payload]
    header_bits: int
    rng: Callable[..., np.random.Generator]
    measures: Mapping[str, Callable[[Array], float]] = field(default_factory=dict)
    server: ServerLink = field(default_factory=ServerLink)
    silence: SilencePolicy = field(default_factory=SilencePolicy)
    stop: StopRules = field(default_factory=StopRules)
    evaluator: Evaluator = field(default_factory=SerialEvaluator)
