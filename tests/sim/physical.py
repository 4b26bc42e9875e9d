"""Members of the physical world for tests, and how to read what has become of them.

Batteries convert without a loss unless a test says otherwise, so that a joule at the client
is a joule in store; and most powers are 0, so that a test names the ones that matter.
"""

from collections.abc import Sequence
from typing import Any

from fedsim.core.ports import Message, Silence
from fedsim.physics.availability import ALWAYS, Intervals, PresenceLaw
from fedsim.physics.batteries import Battery
from fedsim.physics.devices import Device
from fedsim.sim.client import Handler, SimClient
from fedsim.sim.members import ClientConfig
from fedsim.sim.server import SimServer
from tests.physics.batteries import battery_of
from tests.sim.radios import RadioModel, client_of

from .worlds import IDEAL, NO_LOSS, SLOW, Run, answered, asked, play, setup, work

Told = tuple[float, list[tuple[int, int]]]
"""When an exchange closed, and who answered which round."""


def battery(joules: float, **parameters: Any) -> Battery:
    """A store without losses that can be emptied, and whose client restarts at a half."""
    defaults: dict[str, Any] = {
        "charge_efficiency": 1.0,
        "discharge_efficiency": 1.0,
        "cutoff": 0.0,
        "threshold": 0.0,
        "restart": 0.5,
    }
    return battery_of(joules, **(defaults | parameters))


def member(
    store: Battery | None = None,
    availability: PresenceLaw = ALWAYS,
    *,
    device: Device = SLOW,
    radio: RadioModel = IDEAL,
    group: int = 0,
) -> ClientConfig:
    return client_of(device, radio, NO_LOSS, store, availability, group)


def online(*edges: float) -> Intervals:
    """Online from the first time to the second, from the third to the fourth, and so on."""
    return Intervals(edges[::2], edges[1::2])


def spans(run: Run, event: str, node: int | None = 0) -> list[tuple[float, float]]:
    """Return when spans of an event at a client, or at the server, have begun and ended."""
    name = "server" if node is None else f"client-{node}"
    return [(row["t"] - row["duration"], row["t"]) for row in run.of(event, node=name)]


def told(run: Run, event: str, *columns: str, **wanted: object) -> list[tuple[Any, ...]]:
    """Return some columns of the rows of an event."""
    return [tuple(row[column] for column in columns) for row in run.of(event, **wanted)]


def tired(*seconds: float) -> Handler:
    """A handler that answers after so much work on a slow device, by client."""

    async def handle(client: SimClient, message: Message) -> Message | Silence:
        await client.compute(work(seconds[client.id]))
        return answered()

    return handle


def gathered(
    handle: Handler, members: Sequence[ClientConfig], rounds: int, **parts: Any
) -> tuple[Run, list[Told]]:
    """Hold so many exchanges, and note when each has closed and with what."""
    seen = list[Told]()

    async def serve(server: SimServer) -> None:
        for _ in range(rounds):
            replies = await server.exchange(asked())
            seen.append((server.now, [(reply.client, reply.round) for reply in replies]))
            server.commit(server.initial)

    return play(setup(serve, handle, members, **parts)), seen
