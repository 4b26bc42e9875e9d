"""The client table: each column sums one amount of the rows of one event, of one client's."""

import numpy as np

from fedsim.record.ledger import Ledger, Meters
from fedsim.record.recorder import client_table
from fedsim.record.schema import ROW_DTYPE, Event

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
