"""The client table: what each client is, did and spent over a whole run."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.ports import Array, node_name
from fedsim.record.emissions import Emissions
from fedsim.record.ledger import Ledger, Meters, Stores
from fedsim.record.schema import GRAMS, Event


def client_table(
    ledger: Ledger,
    facts: Mapping[str, Sequence[object]],
    meters: Meters,
    emissions: Emissions | None = None,
) -> pd.DataFrame:
    """Return one row a client.

    Args:
        ledger: the sums of the run's log.
        facts: further columns of what each client is, in front.
        meters: what the physical world showed at its end.
        emissions: what the log has been priced with, if anything.
    """
    of, number = ledger.of, ledger.of_number
    idle = meters.idle_joules
    transmissions = number("payload_count", Event.SEND)
    return pd.DataFrame(
        {
            "client": [node_name(client) for client in range(ledger.clients)],
            **facts,
            "transmissions": transmissions,
            "beacons": number("count", Event.SEND) - transmissions,
            "silent": number("count", Event.SILENT),
            "late": number("count", Event.LATE),
            "lost": number("count", Event.LOST),
            "skipped": number("count", Event.SKIPPED),
            "bits_up": number("bits", Event.SEND),
            "bits_down": number("bits", Event.RECEIVE),
            "bits_again": number("bits", Event.RETRANSMIT),
            "compute_s": of("seconds", Event.COMPUTE),
            "send_s": of("seconds", Event.SEND),
            "receive_s": of("seconds", Event.RECEIVE),
            "tail_s": of("seconds", Event.TAIL),
            "offline_s": of("seconds", Event.ONLINE),
            "off_s": of("seconds", Event.CHARGED),
            "compute_joules": of("joules", Event.COMPUTE),
            "send_joules": of("joules", Event.SEND),
            "receive_joules": of("joules", Event.RECEIVE),
            "retransmit_joules": of("joules", Event.RETRANSMIT),
            "promotion_joules": of("joules", Event.PROMOTION),
            "tail_joules": of("joules", Event.TAIL),
            "idle_joules": idle,
            **_forwarded(ledger),
            "joules": ledger.spent()[1:] + idle,
            **_carbon(meters, emissions),
            **_batteries(ledger.clients, meters.stores),
        }
    )


def _forwarded(ledger: Ledger) -> dict[str, Array | NDArray[np.int64]]:
    """Return the columns of relays, if a client has forwarded anything."""
    if not ledger.of("count", Event.FORWARD).any():
        return {}
    return {
        "bits_forwarded": ledger.of_number("bits", Event.FORWARD),
        "forward_joules": ledger.of("joules", Event.FORWARD),
    }


def _carbon(meters: Meters, emissions: Emissions | None) -> dict[str, Array]:
    """Return the columns of carbon, if any; whose electricity is unknown has NaN there."""
    if emissions is None or meters.idle_grams is None:
        return {}
    idle = np.where(emissions.known, meters.idle_grams, np.nan)
    return {"idle_grams": idle, GRAMS: emissions.grams[1:] + idle}


def _batteries(clients: int, stores: Stores) -> dict[str, Array]:
    """Return the columns of the batteries; who has none has NaN there."""
    columns = {
        "initial_joules": stores.initial,
        "charged_joules": stores.charged,
        "drained_joules": stores.drained,
        "final_joules": stores.final,
        "depletions": stores.depletions.astype(np.float64),
    }
    return {name: _spread(clients, stores.clients, held) for name, held in columns.items()}


def _spread(clients: int, whose: NDArray[np.intp], held: Array) -> Array:
    column = np.full(clients, np.nan)
    column[whose] = held
    return column
