"""Processes of clients on this machine, for `run_live`."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def client_processes(
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
        with os.fdopen(descriptor, "w") as stream:
            stream.write(token.decode())
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
