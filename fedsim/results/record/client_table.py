"""The client table: attributes, activity and cost of each client over a whole run.

For ten million clients its forty columns take three gigabytes, so it is built and written in blocks
of clients.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.ports import Array, node_name
from fedsim.results.record.emissions import Emissions
from fedsim.results.record.ledger import Ledger, Meters, Stores, blocks_of
from fedsim.results.record.schema import GRAMS, Event

Facts = Sequence[object] | NDArray[np.int64]
"""An attribute of each client."""


def client_table(
    ledger: Ledger,
    facts: Mapping[str, Facts],
    meters: Meters,
    emissions: Emissions | None = None,
    name: Callable[[int], str] = node_name,
) -> pd.DataFrame:
    """Return one row per client, and per gateway.

    Args:
        ledger: the sums of the run's log.
        facts: leading columns with the clients' attributes.
        meters: the world's meter readings at its end.
        emissions: the pricing of the log, if any.
        name: returns the name of a node.
    """
    return _rows(range(ledger.clients), ledger, facts, meters, emissions, name)


def client_blocks(
    ledger: Ledger,
    facts: Mapping[str, Facts],
    meters: Meters,
    emissions: Emissions | None = None,
    name: Callable[[int], str] = node_name,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of the client table in blocks; see `client_table`."""
    for clients in blocks_of(ledger.clients):
        yield _rows(clients, ledger, facts, meters, emissions, name)


def _rows(
    clients: range,
    ledger: Ledger,
    facts: Mapping[str, Facts],
    meters: Meters,
    emissions: Emissions | None,
    name: Callable[[int], str],
) -> pd.DataFrame:
    """Return the rows of consecutive clients."""

    def of(what: str, event: Event) -> Array:
        return ledger.of(what, event, clients)

    def number(what: str, event: Event) -> NDArray[np.int64]:
        return ledger.of_number(what, event, clients)

    part = slice(clients.start, clients.stop)
    idle = meters.idle_joules[part]
    transmissions = number("payload_count", Event.SEND)
    table = pd.DataFrame(
        {
            "client": pd.Series([name(client) for client in clients]),
            **{key: values[part] for key, values in facts.items()},
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
            "left_s": np.full(len(clients), np.nan) if meters.left is None else meters.left[part],
            "compute_joules": of("joules", Event.COMPUTE),
            "send_joules": of("joules", Event.SEND),
            "receive_joules": of("joules", Event.RECEIVE),
            "retransmit_joules": of("joules", Event.RETRANSMIT),
            "promotion_joules": of("joules", Event.PROMOTION),
            "tail_joules": of("joules", Event.TAIL),
            "idle_joules": idle,
            **_relay_columns(clients, ledger),
            "joules": ledger.joules_of(clients) + idle,
            **_carbon(part, meters, emissions),
            **_batteries(clients, meters.stores),
        },
        copy=not meters.metered,
    )
    if not meters.metered:
        table.loc[:, table.columns.str.endswith("joules")] = np.nan
    return table


def _relay_columns(clients: range, ledger: Ledger) -> dict[str, Array | NDArray[np.int64]]:
    """Return the columns of relays, if any client has forwarded a message."""
    if not ledger.occurs("count", Event.FORWARD):
        return {}
    return {
        "bits_forwarded": ledger.of_number("bits", Event.FORWARD, clients),
        "forward_joules": ledger.of("joules", Event.FORWARD, clients),
    }


def _carbon(part: slice, meters: Meters, emissions: Emissions | None) -> dict[str, Array]:
    """Return the columns of carbon, if any; clients on unknown electricity have NaN."""
    if emissions is None or meters.idle_grams is None:
        return {}
    idle = np.where(emissions.known[part], meters.idle_grams[part], np.nan)
    return {"idle_grams": idle, GRAMS: emissions.grams[1:][part] + idle}


def _batteries(clients: range, stores: Stores) -> dict[str, Array]:
    """Return the columns of the batteries; clients without one have NaN."""
    columns = {
        "initial_joules": stores.initial,
        "charged_joules": stores.charged,
        "drained_joules": stores.drained,
        "final_joules": stores.final,
        "depletions": stores.depletions.astype(np.float64),
    }
    indices = np.flatnonzero((stores.clients >= clients.start) & (stores.clients < clients.stop))
    if not len(indices):
        return dict.fromkeys(columns, np.full(len(clients), np.nan))  # one array for all of them
    places = stores.clients[indices] - clients.start
    return {
        name: _spread(len(clients), places, values[indices]) for name, values in columns.items()
    }


def _spread(clients: int, owners: NDArray[np.intp], values: Array) -> Array:
    column = np.full(clients, np.nan)
    column[owners] = values
    return column
