"""Recordings in fedsim's own logs, of simulated runs and of runs over real sockets.

The row of a message states its arrival, and the duration of its bits. The time of sending follows
from earlier rows of the sender. The server sends messages as it opens an exchange. A client replies
when its work is done, or, without work, when its download has arrived. The promotion of a radio has
its own row in the log, and is not part of the message.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from fedsim.addons.calibration.recording import Observation, as_table
from fedsim.core.errors import DataError
from fedsim.core.ports import SERVER, node_name
from fedsim.results.record.read import hold_no_runs, read_run, run_folders

_COLUMNS = ["t", "duration", "event", "node", "peer", "round", "detail"]
_NUMBERS = ["payload_bits", "header_bits", "operations", "samples"]
_WANTED = ("exchange", "promotion", "compute", "receive")


def read_log(folder: Path) -> pd.DataFrame:
    """Return the observations of all runs in a folder written by `fedsim run`.

    Raises:
        DataError: there are no runs, or a file of one is damaged.
    """
    runs = run_folders(folder)
    if not runs:
        raise DataError("log", hold_no_runs(folder))
    rows = (
        row for number, run in enumerate(runs) for row in _of_run(read_run(run, "events"), number)
    )
    return as_table(rows)


def _of_run(events: pd.DataFrame, run: int) -> Iterator[Observation]:
    """Yield the observations of one run, in the order in which they ended."""
    wanted = events[events["event"].isin(_WANTED)]
    server, opened = node_name(SERVER), 0.0
    free = dict[str, float]()  # by client: the end of its last activity, s
    columns = [wanted[name].astype(object).tolist() for name in (*_COLUMNS, *_NUMBERS)]
    for t, duration, event, node, peer, number, detail, payload, header, work, samples in zip(
        *columns, strict=True
    ):
        sent = (payload + header) / 8.0
        if event == "exchange":
            opened = t
        elif event == "promotion":
            free[node] = t
        elif event == "compute":
            yield Observation(run, node, number, "compute", t - duration, t, 0.0, work, samples)
            free[node] = t
        elif not sent or not pd.isna(detail):
            continue  # no bits, or not delivered: `detail` states the reason
        # The time of sending is the end of the client's last activity: its work, the wake-up of its
        # radio, or its download.
        elif node == server:
            yield Observation(run, peer, number, "upload", free.get(peer, opened), t, sent)
        elif peer == server:
            # Sent as the exchange was opened, or later, after the promotion of the radio, which is
            # no part of the message.
            begun = max(opened, free.get(node, opened))
            yield Observation(run, node, number, "download", begun, t, sent)
            free[node] = t
