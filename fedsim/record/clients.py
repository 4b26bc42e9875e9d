"""The client table: what each client is, did and spent over a whole run."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fedsim.ports import Array, node_name
from fedsim.record.ledger import Ledger, Meters
from fedsim.record.schema import Event

_COUNTS = {
    *("transmissions", "beacons", "silent", "late", "lost", "skipped"),
    *("bits_up", "bits_down", "bits_again"),
}


def client_table(
    ledger: Ledger, facts: Mapping[str, Sequence[object]], meters: Meters
) -> pd.DataFrame:
    """Return one row a client.

    Args:
        ledger: the sums of the run's log.
        facts: further columns of what each client is, in front.
        meters: what the physical world showed at its end.
    """

    def of(table: Array, event: Event) -> Array:
        return np.asarray(table[event, 1:])

    idle = meters.idle_joules
    transmissions = of(ledger.payload_count, Event.SEND)
    frame = pd.DataFrame(
        {
            "client": [node_name(client) for client in range(ledger.clients)],
            **facts,
            "transmissions": transmissions,
            "beacons": of(ledger.count, Event.SEND) - transmissions,
            "silent": of(ledger.count, Event.SILENT),
            "late": of(ledger.count, Event.LATE),
            "lost": of(ledger.count, Event.LOST),
            "skipped": of(ledger.count, Event.SKIPPED),
            "bits_up": of(ledger.bits, Event.SEND),
            "bits_down": of(ledger.bits, Event.RECEIVE),
            "bits_again": of(ledger.bits, Event.RETRANSMIT),
            "compute_s": of(ledger.seconds, Event.COMPUTE),
            "send_s": of(ledger.seconds, Event.SEND),
            "receive_s": of(ledger.seconds, Event.RECEIVE),
            "tail_s": of(ledger.seconds, Event.TAIL),
            "offline_s": of(ledger.seconds, Event.ONLINE),
            "off_s": of(ledger.seconds, Event.CHARGED),
            "compute_joules": of(ledger.joules, Event.COMPUTE),
            "send_joules": of(ledger.joules, Event.SEND),
            "receive_joules": of(ledger.joules, Event.RECEIVE),
            "retransmit_joules": of(ledger.joules, Event.RETRANSMIT),
            "promotion_joules": of(ledger.joules, Event.PROMOTION),
            "tail_joules": of(ledger.joules, Event.TAIL),
            "idle_joules": idle,
            "joules": ledger.joules[:, 1:].sum(axis=0) + idle,
        }
    )
    counts = [name for name in frame if name in _COUNTS]
    return frame.astype(dict.fromkeys(counts, np.int64)).join(_batteries(meters), how="left")


def _batteries(meters: Meters) -> pd.DataFrame:
    """Return the columns of the batteries, by the client's number; others have NaN there."""
    stores = meters.stores
    columns = {
        "initial_joules": stores.initial,
        "charged_joules": stores.charged,
        "drained_joules": stores.drained,
        "final_joules": stores.final,
        "depletions": stores.depletions.astype(np.float64),
    }
    return pd.DataFrame(columns, index=stores.clients)
