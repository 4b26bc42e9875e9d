"""The client table: what each client is, did and spent over a whole run."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fedsim.ports import Array
from fedsim.record.ledger import Ledger
from fedsim.record.schema import Event, node_name


def client_table(
    ledger: Ledger, facts: Mapping[str, Sequence[object]], idle_power: Array
) -> pd.DataFrame:
    """Return one row a client.

    Args:
        ledger: the sums of the run's log.
        facts: further columns of what each client is, in front.
        idle_power: W, shape (M,); it flows for the whole run.
    """

    def of(table: Array, event: Event) -> Array:
        return np.asarray(table[event, 1:])

    idle = idle_power * ledger.t
    transmissions = of(ledger.payload_count, Event.SEND)
    frame = pd.DataFrame(
        {
            "client": [node_name(client) for client in range(ledger.clients)],
            **facts,
            "transmissions": transmissions,
            "beacons": of(ledger.count, Event.SEND) - transmissions,
            "silent": of(ledger.count, Event.SILENT),
            "late": of(ledger.count, Event.LATE),
            "bits_up": of(ledger.bits, Event.SEND),
            "bits_down": of(ledger.bits, Event.RECEIVE),
            "compute_s": of(ledger.seconds, Event.COMPUTE),
            "send_s": of(ledger.seconds, Event.SEND),
            "receive_s": of(ledger.seconds, Event.RECEIVE),
            "compute_joules": of(ledger.joules, Event.COMPUTE),
            "send_joules": of(ledger.joules, Event.SEND),
            "receive_joules": of(ledger.joules, Event.RECEIVE),
            "idle_joules": idle,
            "joules": ledger.joules[:, 1:].sum(axis=0) + idle,
        }
    )
    counts = ["transmissions", "beacons", "silent", "late", "bits_up", "bits_down"]
    return frame.astype(dict.fromkeys(counts, np.int64))
