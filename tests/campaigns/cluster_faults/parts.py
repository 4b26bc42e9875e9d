"""The parts of a cluster, each a process of its own, and what can be done to them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from distributed import Client

from .wire import Wire, stalled

WORKERS = 2
_LOOK = 0.1  # seconds of real time between two looks at who is there
BLIND = Path(__file__).with_name("blind.py")
PATIENCE = {
    "distributed.scheduler.worker-ttl": "6s",
    "distributed.comm.timeouts.connect": "12s",
    "distributed.comm.timeouts.tcp": "12s",
}
"""How long parts wait for each other: a campaign has no half minutes."""

ENVIRONMENT = {
    f"DASK_{key.upper().replace('.', '__').replace('-', '_')}": value
    for key, value in PATIENCE.items()
}
"""The same, for processes."""

Way = Callable[[], Callable[[], None]]
"""Does something, and returns what takes it back after a while."""


class Parts:
    """A scheduler, and workers, which reach it through a wire, as the parent does through another.

    Args:
        home: a folder for what they write.
        blind: whether workers do not see the study's folder.
    """

    def __init__(self, home: Path, *, blind: bool) -> None:
        self._home, self._blind = home, blind
        self._port = _free_port()
        self._to_worker, self._to_parent = Wire(self._port), Wire(self._port)
        self.address = f"tcp://127.0.0.1:{self._to_parent.port}"
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._client: Client | None = None
        self.begin()

    def begin(self) -> None:
        """Begin what has ended, and wait until all are there, as what is about to end may be."""
        if self._scheduler is None or self._scheduler.poll() is not None:
            self._end()
            said = "--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard"
            self._scheduler = self._begun("scheduler", *said)
        with Client(f"tcp://127.0.0.1:{self._port}", set_as_default=False, timeout="60s") as each:
            there = -1
            while there != WORKERS:
                for number in range(WORKERS):
                    if number == len(self._workers):
                        self._workers.append(self._worker(number))
                    elif self._workers[number].poll() is not None:
                        self._workers[number] = self._worker(number)
                time.sleep(_LOOK)
                there = len(each.scheduler_info(n_workers=-1)["workers"])

    def ways(self) -> dict[tuple[str, str], Way]:
        """Return what can be done, by part and way."""
        found: dict[tuple[str, str], Way] = {
            ("wire of a worker", "cut"): lambda: _once(self._to_worker.cut),
            ("wire of a worker", "stall"): lambda: stalled(self._to_worker),
            ("wire of the parent", "cut"): lambda: _once(self._to_parent.cut),
            ("wire of the parent", "stall"): lambda: stalled(self._to_parent),
        }
        pids = {
            "worker": lambda: _child(self._workers[0].pid),
            "nanny": lambda: self._workers[0].pid,
            "scheduler": lambda: self._scheduler.pid if self._scheduler else 0,
        }
        for part, pid in pids.items():
            for way in ("SIGKILL", "SIGTERM", "SIGSTOP"):
                number = signal.Signals[way]
                found[part, way] = lambda pid=pid, number=number: _signalled(pid(), number)  # type: ignore[misc]
        return found

    def close(self) -> None:
        """End all of them."""
        self._end()
        self._to_worker.close()
        self._to_parent.close()

    def _end(self) -> None:
        for each in (*self._workers, *filter(None, [self._scheduler])):
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()
        self._workers, self._scheduler = [], None

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        port = self._port if number else self._to_worker.port
        said = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(self._home)]
        blind = ["--preload", str(BLIND)] if self._blind else []
        return self._begun(
            "worker", f"tcp://127.0.0.1:{port}", "--memory-limit", "0", *said, *blind
        )

    def _begun(self, part: str, *said: str) -> subprocess.Popen[bytes]:
        with (self._home / f"{part}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", part, *said],
                stdout=log,
                stderr=log,
                env=os.environ | ENVIRONMENT,
                start_new_session=True,
            )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _child(pid: int) -> int:
    """Return the process in which a nanny's worker lives; 0 where there is none."""
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return 0


def _signalled(pid: int, number: signal.Signals) -> Callable[[], None]:
    def go_on() -> None:
        if number == signal.SIGSTOP:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return go_on


def _once(act: Callable[[], None]) -> Callable[[], None]:
    act()
    return lambda: None
