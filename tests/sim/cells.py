"""One broadcast to a fleet of cells."""

import asyncio
from collections.abc import Sequence
from typing import Any

from fedsim.core.ports import SILENCE, Message, Silence
from fedsim.sim.client import SimClient
from fedsim.sim.members import ClientConfig
from fedsim.sim.server import SimServer
from tests.policies import participation_of, silence_of

from .worlds import Run, asked, play, setup

BITS = "payload_bits", "header_bits", "transport_bits"


async def quiet(client: SimClient, message: Message) -> Silence:
    return SILENCE


def broadcast(members: Sequence[ClientConfig], bits: int = 64, **parts: Any) -> Run:
    """Broadcast so many bits and wait until 100 s; no client answers.

    The server does not notice who leaves, so the round goes on until its deadline.
    """

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(bits))
        server.commit(server.initial)
        await asyncio.sleep(100.0 - server.now)

    silence = silence_of(beacon=False)
    policy = participation_of(deadline=100.0, noticed="deadline")
    made = setup(serve, quiet, members, cells=True, silence=silence, participation=policy, **parts)
    return play(made)
