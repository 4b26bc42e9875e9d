"""The client table: each column sums one amount of the rows of one event, of one client's."""

import numpy as np
import pandas as pd
import pytest

from fedsim.results.record.client_table import Facts, client_blocks, client_table
from fedsim.results.record.ledger import Ledger, Meters, Stores
from fedsim.results.record.schema import ROW_DTYPE, Event

SUMMED = {
    "transmissions": ("sent", "send"), "beacons": ("silent words", "send"),
    "silent": ("rows", "silent"), "late": ("rows", "late"), "lost": ("rows", "lost"),
    "skipped": ("rows", "skipped"), "bits_up": ("bits", "send"), "bits_down": ("bits", "receive"),
    "bits_again": ("bits", "retransmit"), "compute_s": ("seconds", "compute"),
    "send_s": ("seconds", "send"), "receive_s": ("seconds", "receive"),
    "tail_s": ("seconds", "tail"), "offline_s": ("seconds", "online"),
    "off_s": ("seconds", "charged"), "compute_joules": ("joules", "compute"),
    "send_joules": ("joules", "send"), "receive_joules": ("joules", "receive"),
    "retransmit_joules": ("joules", "retransmit"), "promotion_joules": ("joules", "promotion"),
    "tail_joules": ("joules", "tail"),
}  # fmt: skip
"""What the documentation says of each column: an amount, and the event whose rows have it."""


def test_each_column_is_the_sum_of_its_event_s_rows() -> None:
    """Of each event, client-1 has two rows of amounts that no sum of others makes."""
    rows = np.zeros(2 * len(Event), dtype=ROW_DTYPE)
    power = 2.0 ** np.arange(len(rows))
    rows["event"] = np.repeat([event.value for event in Event], 2)
    rows["node"], rows["duration"], rows["joules"] = 1, power, 1024 * power
    rows["payload_bits"][::2] = 1 + np.arange(len(Event))
    rows["header_bits"], rows["transport_bits"] = 100, 7
    ledger = Ledger(3)
    ledger.absorb(rows)
    nothing = Meters(0, 0, 0, 0, 0, np.zeros(3), np.array([1.0, 2.0, 4.0]))
    table = client_table(ledger, {}, nothing).set_index("client")
    for column, (amount, name) in SUMMED.items():
        mine = rows[rows["event"] == Event[name.upper()].value]
        expected = {
            "rows": 2,
            "sent": 1,
            "silent words": 1,
            "bits": mine["payload_bits"].sum() + 2 * 107,
            "seconds": mine["duration"].sum(),
            "joules": mine["joules"].sum(),
        }[amount]
        assert table.loc["client-1", column] == expected, column
        assert not table.loc[["client-0", "client-2"], column].any(), column
    assert table["joules"].tolist() == [1.0, 2.0 + rows["joules"].sum(), 4.0]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_blocks_of_clients_are_the_table(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event has rows of some clients; two of these have batteries, and one forwards."""
    rng, clients = np.random.default_rng(size), 5
    rows = np.zeros(40, dtype=ROW_DTYPE)
    rows["event"], rows["node"] = rng.integers(len(Event), size=40), rng.integers(-1, 4, size=40)
    rows["event"][0], rows["node"][0] = Event.FORWARD, 3
    rows["joules"], rows["duration"], rows["payload_bits"] = rng.random(40), 1.5, 8
    ledger = Ledger(clients)
    ledger.absorb(rows)
    first, last, charged, drained, used = rng.random((5, 2))
    owners, never, zeros = np.array([1, 3]), np.array([0, 2]), np.zeros(2)
    stores = Stores(owners, first, last, charged, drained, used, never, zeros, zeros)
    meters = Meters(0, 0, 0, 0, 0, np.zeros(clients), rng.random(clients), stores)
    facts: dict[str, Facts] = {"device": list("abcde"), "samples": np.arange(clients)}
    monkeypatch.setattr("fedsim.results.record.ledger.BLOCK", size)
    blocks = list(client_blocks(ledger, facts, meters))
    assert len(blocks) == -(-clients // size)
    joined = pd.concat(blocks, ignore_index=True)
    pd.testing.assert_frame_equal(joined, client_table(ledger, facts, meters), check_exact=True)
