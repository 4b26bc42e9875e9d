"""The functions `run_live` and `serve`: live runs of a scenario, into a folder of runs."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from fedsim.addons.live.access import Access, Address, fresh_token
from fedsim.addons.live.connection import Timing, ignore_text
from fedsim.addons.live.handshake import RunOffer
from fedsim.addons.live.joining import LivePart, digest_of, join, run_clients
from fedsim.addons.live.meters import Meter, NoMeter
from fedsim.addons.live.refusals import check_live
from fedsim.addons.live.returning import ReturnRule
from fedsim.addons.live.world import LiveSettings, LiveWorld, StartClients
from fedsim.algorithms.messages import annotated_replies
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError, OutputError, PeerError
from fedsim.results.record.folder import RunFolder
from fedsim.results.record.live import clear_live
from fedsim.results.record.lock import hold
from fedsim.results.record.manifest import LIVE
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.result import Result
from fedsim.running.api import session_folder, warn_of_theory
from fedsim.running.campaign import MADE, check_ends
from fedsim.running.folder import check_place, study_of
from fedsim.running.history import OpenCall, record_call
from fedsim.running.live import LiveReporter
from fedsim.running.run import Watch, ending, execute, ignore_progress
from fedsim.scenario import Plan, dump, load
from fedsim.scenario.building import Builder, Job
from fedsim.sim.config import WorldConfig
from fedsim.sim.worlds.observer import OnRound

__all__ = ["join", "run_live", "serve"]


def run_live(
    source: str | Path | Mapping[str, Any] | Plan,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    processes: int = 0,
    command: Sequence[str] = (),
    meter: Meter | None = None,
    timing: Timing | None = None,
    watch: Watch = ignore_progress,
    check: bool = True,
) -> Result:
    """Run every variant of a scenario under every seed live, on this machine.

    Server and clients exchange messages over TCP on the loopback interface, authenticated by a
    token that is created for the run. Radios, devices and links of the scenario have no effect.

    Args:
        source: a YAML file, a mapping, or a plan.
        out: the folder of the run folders; if None, a temporary one until this session ends.
        overrides: "key=value" texts that replace values of the scenario.
        blocks: user-defined classes that the scenario may name by their kind.
        processes: the number of processes for the clients; 0 for none but this one.
        command: the arguments of `fedsim join` for the same scenario; needed with `processes`,
            unless the scenario is a file without `blocks`.
        meter: of the energy of the clients' work; only without further processes.
        timing: of the connections.
        watch: called with the progress of runs.
        check: whether to raise and warn by the final states of runs.

    Raises:
        ScenarioError, BlockError: the scenario is invalid, or cannot run live.
        DataError: `out` holds runs of another scenario.
        OccupiedError, OutputError: another process writes into `out`, or a file cannot be written.
        RunError: runs have failed; the others are kept.

    Example:
        >>> len(fedsim.addons.live.run_live("censoring", overrides=["stop={rounds: 2}"]).summary)
        3
    """
    plan = source if isinstance(source, Plan) else load(source, overrides=overrides, blocks=blocks)
    token = fresh_token()
    access = Access(token)
    with _listener(Address("127.0.0.1", 0)) as listener:
        live = _LiveStudy(plan, listener, access, timing or Timing(), watch)
        if processes:
            port = listener.getsockname()[1]
            words, live.patience = command or _words(source, overrides), live.timing.joining
            with _client_processes(words, live.clients, processes, port, token):
                return live.into(out, check=check)
        live.start = partial(
            _start_here, access=access, meter=meter or NoMeter(), timing=live.timing
        )
        return live.into(out, check=check)


def serve(
    source: str | Path | Mapping[str, Any] | Plan,
    listen: str,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    access: Access | None = None,
    timing: Timing | None = None,
    watch: Watch = ignore_progress,
    refused: Callable[[PeerError], None] = lambda _: None,
    tell: Callable[[str], None] = ignore_text,
    listening: Callable[[Address], None] = lambda _: None,
    check: bool = True,
) -> Result:
    """Run every variant of a scenario under every seed live, for clients that join.

    A client that has left may rejoin; if all have left, the server waits for them.

    Args:
        source: a YAML file, a mapping, or a plan.
        listen: where, as HOST:PORT; port 0 for one that the system chooses.
        out: as for `run_live`, like `overrides`, `blocks`, `timing`, `watch` and `check`.
        overrides: see above.
        blocks: see above.
        access: the authentication of clients; needed if other machines can connect.
        timing: see above.
        watch: see above.
        refused: called with the error of each rejected connection.
        tell: called with a text when a client leaves or reconnects.
        listening: called with the address as soon as clients can connect.
        check: see above.

    Raises:
        DataError: the address is invalid, or open to unauthenticated clients.
        OutputError: the server cannot listen on the address.

    Example:
        >>> from threading import Thread
        >>> def start(address):  # elsewhere: fedsim join HOST:PORT --client 0..9
        ...     where = f"{address.host}:{address.port}"
        ...     Thread(target=fedsim.addons.live.join, args=(where, range(10))).start()
        >>> here, short = "127.0.0.1:0", ["stop={rounds: 2}"]
        >>> served = fedsim.addons.live.serve("censoring", here, overrides=short, listening=start)
        >>> len(served.runs)
        3
    """
    plan = source if isinstance(source, Plan) else load(source, overrides=overrides, blocks=blocks)
    address, access = Address.parse(listen), access or Access()
    access.check(address)
    with _listener(address) as listener:
        live = _LiveStudy(plan, listener, access, timing or Timing(), watch, refused, tell)
        live.patience, live.goes_on = live.timing.joining, True
        listening(Address(address.host, listener.getsockname()[1]))
        return live.into(out, check=check)


def _words(source: object, overrides: Sequence[str]) -> list[str]:
    """Return the arguments of `fedsim join` for a scenario.

    Raises:
        DataError: the scenario is not a file.
    """
    if not isinstance(source, str | Path):
        text = "each client process reads the scenario, so it has to be a file"
        raise DataError("processes", text)
    return [str(source), *(word for each in overrides for word in ("--set", each))]


@contextmanager
def _listener(address: Address) -> Iterator[socket.socket]:
    """Return a socket that listens at an address.

    Raises:
        OutputError: it cannot listen.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        made = socket.create_server(address, family=family, backlog=1024)
    except OSError as error:
        raise OutputError(error.errno, f"{error.strerror}", str(address)) from None
    with made:
        yield made


def _start_here(
    job: Job, offer: RunOffer, port: int, *, access: Access, meter: Meter, timing: Timing
) -> Sequence[Coroutine[Any, Any, None]]:
    """Return the coroutines of a run's clients, for the process of the server."""
    address = Address("127.0.0.1", port)
    build = partial(_same_part, LivePart(job))
    return run_clients(
        range(offer.clients), address, offer.digest, build, access, meter, timing, once=True
    )


def _same_part(part: LivePart, _: RunOffer) -> LivePart:
    return part


@dataclass
class _LiveStudy:
    """The live runs of a plan.

    Attributes:
        plan: variants and seeds.
        listener: a socket that listens.
        access: how clients are checked.
        timing: of connections.
        watch, refused, tell: see `serve`.
        patience: how long to wait for reconnections, s.
        goes_on: whether a run continues without a client whose handler has failed.
        start: starts clients in this process, given the job, the offer and the port.
    """

    plan: Plan
    listener: socket.socket
    access: Access
    timing: Timing
    watch: Watch
    refused: Callable[[PeerError], None] = lambda _: None
    tell: Callable[[str], None] = ignore_text
    patience: float = 0.0
    goes_on: bool = False
    start: Callable[[Job, RunOffer, int], Sequence[Coroutine[Any, Any, None]]] = field(
        default=lambda _job, _offer, _port: ()
    )

    def __post_init__(self) -> None:
        self._builder = Builder(self.plan, "bytes")
        jobs = self._builder.check()
        for job in jobs:
            check_live(job)
            self.clients = len(job.members)
        warn_of_theory(jobs, stacklevel=5)

    def into(self, out: str | Path | None, *, check: bool) -> Result:
        """Make the runs into a folder, or a temporary one."""
        folder = session_folder(f"{self.plan.name}-live") if out is None else Path(out)
        study = study_of(self.plan)
        check_place(study, folder)
        with hold(folder):
            for variant, seed in self._runs:
                RunFolder.check(folder, variant.name, seed)
            clear_live(folder)
            study.write(folder)
            with record_call(folder, study, len(self._runs), "", fresh=True) as call:
                paths = self._make_all(folder, call)
                result = Result(folder, tuple(paths), (), temporary=out is None)
                call.close(result)
        if check:
            check_ends(result, stacklevel=4)
        return result

    def _make_all(self, folder: Path, call: OpenCall) -> list[Path]:
        """Make all runs, and publish their progress; return their folders."""
        live, paths = LiveReporter(folder, self.plan), list[Path]()
        with live.publish(len(self._runs)):
            watch = live.watch(self.watch)
            for number, (variant, seed) in enumerate(self._runs):
                job, another = self._builder.build(variant, seed), number < len(self._runs) - 1
                paths.append(self._make(job, folder, watch, another=another))
                call.counts[MADE] += 1
                call.note()
        return paths

    @property
    def _runs(self) -> list[Any]:
        return [(variant, seed) for variant in self.plan.variants for seed in variant.seeds]

    def _make(self, job: Job, folder: Path, watch: Watch, *, another: bool) -> Path:
        """Make one run."""
        own = job.scenario.model_copy(update={"seed": job.seed, "seeds": 1})
        name, clients = job.variant.name, len(job.members)
        offer = RunOffer(digest_of(self.plan), name, job.seed, dump(own), clients, token_hex(8))
        facts: dict[str, Any] = {}
        start: StartClients = partial(self.start, job, offer)
        settings = LiveSettings(
            listener=self.listener,
            access=self.access,
            offer=offer,
            fingerprint=job.problem.fingerprint,
            participation=job.scenario.participation.among(clients),
            another=another,
            timing=self.timing,
            start_clients=start,
            refused=self.refused,
            tell=self.tell,
            returning=ReturnRule.of(job),
            patience=self.patience,
            replies=annotated_replies(type(job.algorithm)),
            goes_on=self.goes_on,
            facts=facts,
        )

        def make_world(setup: WorldConfig, book: RunRecorder, on_round: OnRound) -> LiveWorld:
            return LiveWorld(setup, book, on_round, settings=settings)

        path = execute(job, folder, watch, {LIVE: facts}, make_world=make_world)
        watch(ending(job, folder))
        return path


# Processes of clients on this machine, for `run_live`.


@contextmanager
def _client_processes(
    words: Sequence[str], clients: int, processes: int, port: int, token: bytes
) -> Iterator[None]:
    """Run `fedsim join` for all clients within the block, a share of them in each process.

    Args:
        words: the scenario, as words of the command.
        clients: the number of clients.
        processes: the number of processes.
        port: of the server, on this machine.
        token: that clients prove, which they read from a file that only this user can read.
    """
    with tempfile.TemporaryDirectory(prefix="fedsim-live-") as folder:
        file = Path(folder) / "token"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(token)
        command = [sys.executable, "-m", "fedsim", "join", f"127.0.0.1:{port}", *words]
        command += ["--token", str(file), "--quiet"]
        running = [
            subprocess.Popen([*command, *_numbers(clients, number, processes)])  # noqa: S603 - fedsim itself
            for number in range(min(processes, clients))
        ]
        try:
            yield
            for process in running:
                process.wait(_PATIENCE)
        finally:
            for process in running:
                with suppress(OSError):
                    process.terminate()
                process.wait()


def _numbers(clients: int, number: int, processes: int) -> list[str]:
    return [text for each in range(number, clients, processes) for text in ("--client", str(each))]


_PATIENCE = 30.0
"""How long a process of clients may take to end after the last run, s."""
