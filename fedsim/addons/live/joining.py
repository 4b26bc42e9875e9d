"""Clients that join a server: `join`, and the sessions that it runs."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from errno import ECONNREFUSED
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedsim.addons.live.access import Access, Address, explain_tls
from fedsim.addons.live.client import Build, ClientSession, KeptMemory
from fedsim.addons.live.connection import Timing, ignore_text
from fedsim.addons.live.handshake import NO_DIGEST, ClientHandshake, RunOffer
from fedsim.addons.live.memory import ClientPart
from fedsim.addons.live.meters import Meter, NoMeter
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import AdmissionError, FrameError, PeerError
from fedsim.core.ports import ClientId, node_name
from fedsim.problems.evaluators.serial import one_thread
from fedsim.protocol.stopping import Stop
from fedsim.results.record.scenarios import parse
from fedsim.scenario import Plan, Variant, load
from fedsim.scenario.building import Builder, Job
from fedsim.sim.config import WorldConfig


def digest_of(plan: Plan) -> bytes:
    """Return a hash of a plan: variants, values and seeds."""
    lines = [
        f"{variant.name} {variant.fingerprint} {list(variant.seeds)}" for variant in plan.variants
    ]
    return sha256("\n".join(lines).encode()).digest()


@dataclass(frozen=True)
class LivePart:
    """The part of a job that a client needs; see `fedsim.addons.live.memory.ClientPart`."""

    job: Job

    @property
    def setup(self) -> WorldConfig:
        """The configuration of its world."""
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
        # All clients of this process, and all connections, share one part per run.
        self._build = cache(self._build_once)

    def __call__(self, offer: RunOffer) -> ClientPart:
        """Return the part for a run.

        Raises:
            AdmissionError: the scenario file has no such run.
            ScenarioError: the server's scenario cannot be built here.
        """
        # Without what differs between clients and connections, so that the cache finds the part.
        return self._build(replace(offer, returns=0, last_exchange=0))

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
            part = LivePart(Builder(plan, "bytes").build(_for_client(variant), offer.seed))
        gc.freeze()  # the part lives until the end of the runs: no need to collect garbage in it
        return part


def _for_client(variant: Variant) -> Variant:
    """Return a variant without the server's settings: optimum, measures and stop rules."""
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
    tell: Callable[[str], None] = ignore_text,
) -> None:
    """Take part in all runs of a server, as one client or several; return after the last run.

    A client reconnects if its connection breaks.

    Args:
        address: of the server, HOST:PORT.
        clients: their numbers.
        source: the scenario file of the server; None to receive the scenario from the server.
        overrides: as given to the server.
        blocks: user-defined classes that the scenario may name by their kind.
        access: the authentication of server and client.
        meter: the meter of the clients' energy.
        timing: the timeouts of connections; a client waits `joining` for the server.
        tell: called with messages on what a client waits for.

    Raises:
        AdmissionError: the server has refused, or is not trusted.
        PeerError: the server cannot be reached, or is gone.
        DataError: the address is invalid.
        ScenarioError, BlockError: the scenario is invalid.

    Example:
        >>> fedsim.addons.live.join("127.0.0.1", range(10))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        fedsim.core.errors.DataError: got '127.0.0.1'; expected HOST:PORT, such as ...
    """
    plan = source
    if not (plan is None or isinstance(plan, Plan)):
        plan = load(plan, overrides=overrides, blocks=blocks)
    digest = NO_DIGEST if plan is None else digest_of(plan)
    ends = Address.parse(address), digest, PartBuilder(plan, blocks)
    sessions = run_clients(
        clients,
        *ends,
        access or Access(),
        meter or NoMeter(),
        timing or Timing(),
        apart=len(clients) == 1,
        tell=tell,
    )
    _finish(sessions)


def _finish(sessions: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run clients to their ends; raise the error of one if any fails."""
    with one_thread():
        try:
            asyncio.run(_run_all(sessions))
        except BaseExceptionGroup as group:
            # Not `except*`: on Python 3.11.0 to 3.11.3 it wraps what it raises in a new group.
            failed, others = group.split(PeerError)
            if failed is None or others is not None:
                raise
            raise failed.exceptions[0] from None
        finally:
            gc.unfreeze()


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
    tell: Callable[[str], None] = ignore_text,
) -> Sequence[Coroutine[Any, Any, None]]:
    """Return the coroutines of clients, each of which takes part in all runs of a server.

    Args:
        clients: their numbers.
        address: of the server.
        digest: of the scenario; see `ClientHandshake`.
        build: see `Build`.
        access: the authentication of both ends.
        meter: the meter of the clients' energy.
        timing: of the connections.
        apart: whether work runs in threads.
        once: whether to take part in one run only, over one connection.
        tell: see `join`.
    """
    connector = Connector(address, access, timing, tell)

    async def run_one(client: ClientId) -> None:
        """Take part as one client in all runs, over one or more connections."""
        another, kept, until = True, KeptMemory(), 0.0
        loop = asyncio.get_running_loop()
        while another:
            handshake = ClientHandshake(client, digest, access.token)
            session = ClientSession(
                handshake, build, meter, timing, apart=apart, kept=kept, tell=connector.tell
            )
            try:
                await connector.connect(session)
                another = await session.done and not once
            except PeerError as error:
                # The time to reconnect starts anew with every admission: a run may outlast many
                # broken connections.
                if session.admitted:
                    until = loop.time() + timing.joining
                if once or not _may_pass(error) or loop.time() >= until:
                    raise
                back = f"trying to reconnect for {timing.joining:g} s"
                connector.tell(f"{node_name(client)}: {error}; {back}")
                await asyncio.sleep(_RETRY)

    return [run_one(client) for client in clients]


def _may_pass(error: PeerError) -> bool:
    """Return whether to reconnect after this error."""
    if isinstance(error, AdmissionError):
        return error.code == "connected"  # the server has not noticed yet that the old one is gone
    return not isinstance(error, FrameError)


_RETRY = 0.2
"""The time between two attempts to connect, s."""


# Connections to a server that may start later.


class Connector:
    """Connects clients of this process to one server.

    Args:
        address: of the server.
        access: the authentication of both ends.
        timing: a client waits `joining` for the server.
        tell: called with messages about waiting; once if all clients wait for the same.
    """

    def __init__(
        self, address: Address, access: Access, timing: Timing, tell: Callable[[str], None]
    ) -> None:
        self._address, self._timing, self._tell_user = address, timing, tell
        self._files = files = access.certificates
        self._context = None if files is None else files.client()
        self._told: dict[str, float] = {}

    def tell(self, text: str) -> None:
        """Report an event at the address, unless it was reported a moment ago."""
        now = asyncio.get_running_loop().time()
        if now - self._told.get(text, -_AGAIN) >= _AGAIN:
            self._told[text] = now
            self._tell_user(f"{self._address}: {text}")

    async def connect(self, session: ClientSession) -> None:
        """Connect a session to the server.

        Raises:
            PeerError: the server cannot be reached in time, or TLS has failed.
        """
        loop, span = asyncio.get_running_loop(), self._timing.joining
        until = loop.time() + span
        while True:
            try:
                async with asyncio.timeout_at(until):
                    await loop.create_connection(
                        lambda: session,
                        *self._address,
                        ssl=self._context,
                        ssl_handshake_timeout=None if self._context is None else span,
                    )
            except OSError as error:  # a TimeoutError is one
                self._check(error)
                why = self._why(error)
                if loop.time() + _RETRY > until:
                    text = f"the server at {self._address} cannot be reached: {why}"
                    raise PeerError(f"{text} (tried for {span:g} s)") from None
                self.tell(f"{why}; trying for {span:g} s (--wait)")
                await asyncio.sleep(_RETRY)
            else:
                return

    def _check(self, error: OSError) -> None:
        """Check that a failure is temporary: the server may not have started yet.

        Raises:
            PeerError: the failure is permanent.
        """
        if isinstance(error, socket.gaierror) and error.errno in _UNKNOWN:
            text = f"the host {self._address.host} is unknown: {error.strerror}"
            raise PeerError(text) from None
        if self._files is not None and isinstance(error, ssl.SSLError):
            peer = f"the server at {self._address}"
            text = explain_tls(error, peer, self._files, self._address.host)
            raise AdmissionError("token", text) from None
        if self._files is not None and isinstance(error, ConnectionResetError):
            text = f"{self._address} has closed the connection instead of beginning TLS"
            raise AdmissionError("token", f"{text}: it may serve without TLS") from None

    def _why(self, error: OSError) -> str:
        """Return the reason why the server cannot be reached, as text."""
        if isinstance(error, ConnectionRefusedError) or _all_refused(error):
            return "nothing listens there yet (connection refused)"
        if isinstance(error, TimeoutError):
            return "no answer to the connection (wrong host, or a firewall)"
        return error.strerror or str(error)


def _all_refused(error: OSError) -> bool:
    """Return whether all addresses of a host refused the connection; asyncio joins their errors."""
    text = str(error)
    return text.startswith("Multiple exceptions") and text.count(f"[Errno {ECONNREFUSED}]") > 1


_UNKNOWN = {socket.EAI_NONAME, *(getattr(socket, name, 0) for name in ("EAI_NODATA", "EAI_FAIL"))}
"""The errors of a name lookup that are permanent: the host does not exist."""

_AGAIN = 60.0
"""The time during which the same text is not repeated, s."""
