"""Clients that join a server: `join`, and the sessions that it runs."""

import asyncio
import ssl
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from fedsim.blocks.spec import Spec
from fedsim.building import Builder, Job
from fedsim.computing.serial import one_thread
from fedsim.errors import AdmissionError, PeerError
from fedsim.live.access import Access, Address
from fedsim.live.client import Build, ClientPart, ClientSession
from fedsim.live.connection import Timing
from fedsim.live.handshake import NO_DIGEST, ClientHandshake, RunOffer
from fedsim.live.meters import Meter, NoMeter
from fedsim.ports import ClientId
from fedsim.protocol.stopping import Stop
from fedsim.record.scenarios import parse
from fedsim.scenario import Plan, Variant, load
from fedsim.sim.config import WorldConfig


def digest_of(plan: Plan) -> bytes:
    """Return a hash of all that a plan asks for: variants, values and seeds."""
    lines = [
        f"{variant.name} {variant.fingerprint} {list(variant.seeds)}" for variant in plan.variants
    ]
    return sha256("\n".join(lines).encode()).digest()


@dataclass(frozen=True)
class LivePart:
    """A job, as a client's part of a run; see `fedsim.live.client.ClientPart`."""

    job: Job

    @property
    def setup(self) -> WorldConfig:
        """Everything that its world is made of."""
        return self.job.setup

    @property
    def fingerprint(self) -> str:
        """A hash of the clients' losses."""
        return self.job.problem.fingerprint


class PartBuilder:
    """Builds the part of clients of this process, once a run.

    Args:
        plan: of the scenario file; None to take the server's scenario.
        blocks: user-defined classes that the scenario may name.
    """

    def __init__(self, plan: Plan | None, blocks: Sequence[type[Spec]]) -> None:
        self._plan = plan
        self._blocks = blocks
        self._build = cache(self._build_once)

    def __call__(self, offer: RunOffer) -> ClientPart:
        """Return the part for a run.

        Raises:
            AdmissionError: the scenario file has no such run.
            ScenarioError: the server's scenario cannot be built here.
        """
        return self._build(offer)

    def _build_once(self, offer: RunOffer) -> ClientPart:
        plan = self._plan
        if plan is None:
            plan = load(parse(offer.scenario, Path("scenario of the server")), blocks=self._blocks)
            variant = replace(plan.variants[0], name=offer.variant)
        else:
            named = {each.name: each for each in plan.variants}
            if offer.variant not in named:
                raise AdmissionError("scenario", f"the scenario has no variant {offer.variant!r}")
            variant = named[offer.variant]
        with one_thread():
            return LivePart(Builder(plan, "bytes").build(_for_client(variant), offer.seed))


def _for_client(variant: Variant) -> Variant:
    """Return a variant without what only a server needs: the optimum, measures and stop rules."""
    scenario = variant.scenario
    problem = scenario.problem.model_copy(update={"optimum": "unknown"})
    plain = {"problem": problem, "stop": Stop(), "measures": ()}
    return replace(variant, scenario=scenario.model_copy(update=plain))


def join(
    address: str,
    clients: Sequence[ClientId],
    *,
    source: str | Path | Plan | None = None,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    access: Access | None = None,
    meter: Meter | None = None,
    timing: Timing | None = None,
) -> None:
    """Take part in all runs of a server, as one client or several; return when they are over.

    Args:
        address: of the server, HOST:PORT.
        clients: their numbers.
        source: the scenario file of the server; None to take the scenario from it.
        overrides: as given to the server.
        blocks: user-defined classes that the scenario may name by their kind.
        access: by what server and client know each other.
        meter: of the energy of the clients' work.
        timing: of the connections.

    Raises:
        AdmissionError: the server has refused, or is not trusted.
        PeerError: the server cannot be reached, or is gone.
        DataError: the address is invalid.
        ScenarioError, BlockError: the scenario is invalid.

    Example:
        >>> fedsim.live.join("127.0.0.1", range(10))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        fedsim.errors.DataError: got '127.0.0.1'; expected HOST:PORT, such as 127.0.0.1:7000, ...
    """
    plan = (
        source
        if source is None or isinstance(source, Plan)
        else load(source, overrides=overrides, blocks=blocks)
    )
    digest = NO_DIGEST if plan is None else digest_of(plan)
    ends = Address.parse(address), digest, PartBuilder(plan, blocks)
    sessions = run_clients(
        clients,
        *ends,
        access or Access(),
        meter or NoMeter(),
        timing or Timing(),
        apart=len(clients) == 1,
    )
    with one_thread():
        try:
            asyncio.run(_run_all(sessions))
        except* PeerError as group:
            raise group.exceptions[0] from None


async def _run_all(sessions: Sequence[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for each in sessions:
            group.create_task(each)


def run_clients(
    clients: Sequence[ClientId],
    address: Address,
    digest: bytes,
    build: Build,
    access: Access,
    meter: Meter,
    timing: Timing,
    *,
    apart: bool = False,
    once: bool = False,
) -> Sequence[Coroutine[Any, Any, None]]:
    """Return the coroutines of clients, each of which takes part in all runs of a server.

    Args:
        clients: their numbers.
        address: of the server.
        digest: of the scenario; see `ClientHandshake`.
        build: see `Build`.
        access: by what the ends know each other.
        meter: of the energy of the clients' work.
        timing: of the connections.
        apart: whether work is done in threads.
        once: whether to take part in one run only.
    """
    certificates = access.certificates
    context = None if certificates is None else certificates.client()

    async def run_one(client: ClientId) -> None:
        """Take part as one client, run after run."""
        another = True
        while another:
            handshake = ClientHandshake(client, digest, access.token)
            session = ClientSession(handshake, build, meter, timing, apart=apart)
            await _connect(session, address, context, timing)
            another = await session.done and not once

    return [run_one(client) for client in clients]


async def _connect(
    session: ClientSession, address: Address, context: ssl.SSLContext | None, timing: Timing
) -> None:
    """Connect to a server, which may have to start first.

    Raises:
        PeerError: it cannot be reached in time, or TLS has failed.
    """
    loop, until = asyncio.get_running_loop(), monotonic() + timing.joining
    while True:
        try:
            await loop.create_connection(
                lambda: session,
                *address,
                ssl=context,
                ssl_handshake_timeout=None if context is None else timing.joining,
            )
        except ssl.SSLError as error:
            raise AdmissionError("token", f"TLS with {address} has failed: {error}") from None
        except OSError as error:
            if monotonic() > until:
                text = f"the server at {address} cannot be reached: {error.strerror or error}"
                raise PeerError(text) from None
            await asyncio.sleep(_RETRY)
        else:
            return


_RETRY = 0.2
"""The time between two attempts to connect, s."""
