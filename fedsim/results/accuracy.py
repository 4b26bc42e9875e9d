"""Errors of the network models against packet-level references, measured by `analysis/reality`.

A check of a scenario and a report state the figures of its own regime: whether packets are lost at
random, how many messages are sent at once, how long they are, and whether first windows fit the
queue (`fedsim.results.record.regimes` chooses them). No model was fitted to these cases.
tests/test_reality_table.py compares the figures with those in analysis/reality, and
docs/explanation/truth.md shows them as a table. `ENERGY` has those of the presets' joules and watts
against published measurements; tests/test_reality_energy.py compares them.
"""

from collections.abc import Mapping
from typing import NamedTuple

Range = tuple[float, float]
"""The least and the largest value."""

# Regimes, in the words that users read.

CLEAN, LOSSES = "no random losses", "random losses"
ONE = "one message at a time"
SMALL, LARGE = "one message up to 1 MB at a time", "one message above 1 MB at a time"
MANY = "many messages at once"
FIT = "many messages at once, first windows fit the queue"
OVERFLOW = "many messages at once, first windows overflow the queue"
UDP, TCP = "many messages over UDP", "many messages over TCP"


class Accuracy(NamedTuple):
    """The errors of a model in a regime: of the time at which the last of equal messages arrives.

    Attributes:
        median: of the sizes of relative errors, percent.
        nine: the size that nine of ten cases stay below, percent.
        worst: the largest size, percent.
        cases: their number.
        flows: the least and the most messages at once.
        bytes: the least and the largest size of a message, bytes.
        rates: of the narrowest link on its way, bit/s; None where modulations were varied.
        trips: of round trips without queues, s; None where the air is the only way.
    """

    median: float
    nine: float
    worst: float
    cases: int
    flows: Range
    bytes: Range
    rates: Range | None = None
    trips: Range | None = None

    def __str__(self) -> str:
        return (
            f"median error {percent(self.median)}, 90 % of cases below {percent(self.nine)},"
            f" worst {percent(self.worst)}"
        )

    @property
    def extent(self) -> str:
        """The range of the cases, as text."""
        low, high = self.flows
        count = (
            "1 message" if high == 1 else f"{low if low == high else f'{low} to {high}'} messages"
        )
        parts = [f"{count} of {between(self.bytes, 'B')}"]
        if self.rates is not None:
            parts.append(between(self.rates, "bit/s"))
        if self.trips is not None:
            parts.append(f"round trips of {between(self.trips, 's')}")
        return ", ".join(parts)


def percent(error: float) -> str:
    """Return a size with two digits, or three above 100 %.

    >>> percent(0.717), percent(133.4), percent(0.0008)
    ('0.72 %', '133 %', 'less than 0.01 %')
    """
    if error < 0.01:
        return "less than 0.01 %"
    return f"{error:.0f} %" if error >= 100 else f"{error:.2g} %"


_SIZES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (0.0, "u"))


def amount(value: float, unit: str) -> str:
    """Return a value with two digits and a prefix.

    >>> amount(1.23e6, "B"), amount(0.32, "s"), amount(999.9, "B")
    ('1.2 MB', '320 ms', '1 kB')
    """
    value = float(f"{value:.2g}")
    least, prefix = next(size for size in _SIZES if value >= size[0])
    return f"{value / (least or 1e-6):.3g} {prefix}{unit}"


def between(values: Range, unit: str) -> str:
    """Return a range as words; its unit stands once where both have the same.

    >>> between((1100, 2.34e6), "B"), between((0.013, 0.28), "s")
    ('1.1 kB to 2.3 MB', '13 to 280 ms')
    """
    low, high = (amount(value, unit) for value in values)
    if low == high:
        return low
    same = low.split()[1] == high.split()[1]
    return f"{low.split()[0] if same else low} to {high}"


TRANSFERS: Mapping[str, Mapping[str, Accuracy]] = {
    "fluid": {
        CLEAN: Accuracy(
            58.4, 84.7, 98.6, 99, (1, 95), (1100, 3.4e7), (460000, 9e8), (0.0016, 0.58)
        ),
        LOSSES: Accuracy(66.4, 89.3, 96, 19, (1, 73), (1300, 7.2e6), (1.6e6, 4.6e8), (0.003, 0.71)),
        SMALL: Accuracy(
            62.9, 79.5, 88.4, 22, (1, 1), (4200, 680000), (710000, 5.1e8), (0.002, 0.58)
        ),
        LARGE: Accuracy(
            7.99, 55.2, 68.5, 12, (1, 1), (1.6e6, 3.4e7), (1.4e6, 4.9e8), (0.002, 0.17)
        ),
        MANY: Accuracy(62.8, 92.8, 98.6, 65, (2, 95), (1100, 1e7), (460000, 9e8), (0.0016, 0.54)),
    },
    "lv08": {
        CLEAN: Accuracy(47.6, 324, 334, 99, (1, 95), (1100, 3.4e7), (460000, 9e8), (0.0016, 0.58)),
        LOSSES: Accuracy(141, 330, 333, 19, (1, 73), (1300, 7.2e6), (1.6e6, 4.6e8), (0.003, 0.71)),
        SMALL: Accuracy(155, 323, 331, 22, (1, 1), (4200, 680000), (710000, 5.1e8), (0.002, 0.58)),
        LARGE: Accuracy(
            1.18, 15.3, 30.1, 12, (1, 1), (1.6e6, 3.4e7), (1.4e6, 4.9e8), (0.002, 0.17)
        ),
        MANY: Accuracy(52.5, 326, 334, 65, (2, 95), (1100, 1e7), (460000, 9e8), (0.0016, 0.54)),
    },
    "ns-3": {
        CLEAN: Accuracy(
            0.000688, 0.31, 31.7, 99, (1, 95), (1100, 3.4e7), (460000, 9e8), (0.0016, 0.58)
        ),
        LOSSES: Accuracy(
            0.0498, 0.765, 3.92, 19, (1, 73), (1300, 7.2e6), (1.6e6, 4.6e8), (0.003, 0.71)
        ),
        SMALL: Accuracy(
            0.0147, 0.129, 0.409, 22, (1, 1), (4200, 680000), (710000, 5.1e8), (0.002, 0.58)
        ),
        LARGE: Accuracy(
            0.000378, 0.00935, 2.42, 12, (1, 1), (1.6e6, 3.4e7), (1.4e6, 4.9e8), (0.002, 0.17)
        ),
        FIT: Accuracy(
            0.0013, 0.489, 9.05, 49, (2, 82), (1100, 1e7), (460000, 8.6e8), (0.0016, 0.54)
        ),
        OVERFLOW: Accuracy(
            0.000224, 6.33, 31.7, 16, (2, 95), (2000, 910000), (3.4e6, 9e8), (0.0017, 0.53)
        ),
    },
    "linux": {
        CLEAN: Accuracy(
            0.688, 6.55, 69.7, 76, (1, 28), (1200, 3.1e6), (760000, 2e7), (0.0084, 0.32)
        ),
        LOSSES: Accuracy(1.24, 17, 133, 18, (1, 25), (1100, 1.4e6), (740000, 1.2e7), (0.01, 0.34)),
        ONE: Accuracy(0.564, 3.3, 8.88, 26, (1, 1), (2900, 3.1e6), (760000, 1.8e7), (0.011, 0.29)),
        FIT: Accuracy(0.612, 1.99, 69.7, 29, (3, 28), (1200, 660000), (1.2e6, 2e7), (0.0084, 0.32)),
        OVERFLOW: Accuracy(
            1.12, 20.1, 36.1, 21, (2, 25), (5200, 210000), (1.2e6, 1.9e7), (0.0092, 0.23)
        ),
    },
    "wifi": {
        ONE: Accuracy(1.51, 3.36, 5.19, 7, (1, 1), (16000, 4.2e6)),
        UDP: Accuracy(2.44, 11.8, 15.2, 30, (2, 29), (10000, 2.5e6)),
        TCP: Accuracy(3.37, 6.57, 9.71, 23, (2, 29), (15000, 520000)),
    },
    "fluid, kept": {
        CLEAN: Accuracy(11, 58.6, 82.5, 60, (1, 30), (1100, 1.7e6), (550000, 1.8e7), (0.0084, 0.3)),
        ONE: Accuracy(9.79, 43.9, 58.2, 20, (1, 1), (1100, 1.7e6), (770000, 1.3e7), (0.015, 0.3)),
        MANY: Accuracy(
            11, 64.8, 82.5, 40, (2, 30), (1200, 260000), (550000, 1.8e7), (0.0084, 0.27)
        ),
    },
    "lv08, kept": {
        CLEAN: Accuracy(
            253, 1020, 1180, 60, (1, 30), (1100, 1.7e6), (550000, 1.8e7), (0.0084, 0.3)
        ),
        ONE: Accuracy(536, 1130, 1180, 20, (1, 1), (1100, 1.7e6), (770000, 1.3e7), (0.015, 0.3)),
        MANY: Accuracy(
            193, 903, 1110, 40, (2, 30), (1200, 260000), (550000, 1.8e7), (0.0084, 0.27)
        ),
    },
    "linux, kept": {
        CLEAN: Accuracy(
            2.04, 15.8, 64.8, 60, (1, 30), (1100, 1.7e6), (550000, 1.8e7), (0.0084, 0.3)
        ),
        ONE: Accuracy(1.34, 9.27, 16.8, 20, (1, 1), (1100, 1.7e6), (770000, 1.3e7), (0.015, 0.3)),
        FIT: Accuracy(
            1.48, 5.31, 8.44, 23, (2, 30), (1500, 110000), (550000, 1.8e7), (0.012, 0.27)
        ),
        OVERFLOW: Accuracy(
            8.87, 44.9, 64.8, 17, (4, 28), (1200, 260000), (1.1e6, 1.8e7), (0.0084, 0.16)
        ),
    },
    "ns-3, kept": {
        CLEAN: Accuracy(
            0.491, 6.16, 31.5, 60, (1, 30), (1100, 1.7e6), (550000, 1.8e7), (0.0084, 0.3)
        ),
        ONE: Accuracy(0.265, 2.4, 2.98, 20, (1, 1), (1100, 1.7e6), (770000, 1.3e7), (0.015, 0.3)),
        FIT: Accuracy(
            0.302, 2.09, 6.51, 23, (2, 30), (1500, 110000), (550000, 1.8e7), (0.012, 0.27)
        ),
        OVERFLOW: Accuracy(
            2.83, 16.9, 31.5, 17, (4, 28), (1200, 260000), (1.1e6, 1.8e7), (0.0084, 0.16)
        ),
    },
}
"""By model, and by regime, in the order of `Accuracy`. `ns-3` and `linux` are `model: tcp` with
that stack, `wifi` the cells of `network.wifi`; with random losses medians of runs were compared.
`kept`: the time that messages take in rounds over kept connections; else every message of TCP has a
connection of its own."""

REFERENCES: Mapping[str, str] = {
    "fluid": "ns-3's TCP",
    "lv08": "ns-3's TCP",
    "ns-3": "ns-3's TCP",
    "linux": "Linux 6.18",
    "wifi": "ns-3's Wi-Fi frames",
    **dict.fromkeys(("fluid, kept", "lv08, kept", "linux, kept"), "Linux 6.18"),
    "ns-3, kept": "ns-3's TCP",
}
"""What each model was compared with."""

ROUNDS: Mapping[str, Accuracy] = {
    "fluid": Accuracy(2.34, 8.37, 24.5, 240, (4, 4), (19, 110000), (1.1e6, 4.9e7), (0.011, 0.27)),
    "tcp": Accuracy(2.43, 7.45, 272, 240, (4, 4), (19, 110000), (1.1e6, 4.9e7), (0.011, 0.27)),
}
"""Of the durations of rounds of calibrated fleets, by the model of the network: in ten settings of
live runs over links that Linux shaped, see `analysis/reality/live_links.py`."""

FRAMES: Mapping[str, tuple[float, float, int]] = {
    "pure ALOHA and draws with capture": (1.69, 2.64, 8),
    "LoRaSim's published rates": (0.549, 0.947, 2),
}
"""Of the share of frames that a LoRa gateway receives, by what it was held against: the median, the
worst, percent, and the number of cases, of 30 to 300 nodes that send 20 bytes at SF12."""

CLOSED_FORMS: Mapping[str, str] = {
    "cell": "Clients share the cell's time by a closed form. Its errors are unknown: it was"
    " compared with no scheduler and no measured cell.",
    "lora": "Airtime follows the standard's formula; every radio has the channel to itself. Errors"
    " are unknown: it was compared with no real gateway.",
    "nb-iot": "A message takes its bits divided by the radio's rate. Errors are unknown: it was"
    " compared with no measured network.",
    "short-range": "A message takes its bits divided by the radio's rate. Errors are unknown: it"
    " was compared with no measured network.",
    "peers": "Links between peers were not compared with packets: errors are unknown.",
}
"""What was compared with closed forms only."""


class EnergyAccuracy(NamedTuple):
    """The errors of presets against published measurements of joules and watts.

    Attributes:
        median: the factor that half of the measurements stay below.
        nine: the factor that nine of ten stay below.
        worst: prediction divided by measurement, where it is furthest from 1.
        points: the number of measurements.
        sources: the number of publications.
    """

    median: float
    nine: float
    worst: float
    points: int
    sources: int

    def __str__(self) -> str:
        return (
            f"median factor {self.median:.2g}, 90 % below {self.nine:.2g}, worst"
            f" {self.worst:.2g} times what was measured ({self.points} published measurements of"
            f" {self.sources} source{'s' if self.sources > 1 else ''})"
        )


ENERGY: Mapping[str, EnergyAccuracy] = {
    "BLE, Zigbee, LoRa": EnergyAccuracy(2.59, 3.06, 5.94, 11, 3),
    "Jetsons": EnergyAccuracy(1.39, 4.9, 0.12, 12, 2),
    "NB-IoT and LTE-M": EnergyAccuracy(2.05, 19.3, 0.00587, 14, 2),
    "boards": EnergyAccuracy(1.18, 2.1, 0.366, 20, 8),
    "cellular": EnergyAccuracy(1.45, 1.73, 1.95, 18, 1),
    "microcontrollers": EnergyAccuracy(1.54, 1.54, 0.651, 1, 1),
    "phones": EnergyAccuracy(1.78, 2.16, 2.16, 9, 1),
}
"""By a group of devices or radios, without sources from which presets have their figures."""

MEASURED: Mapping[str, str] = {
    "cortex-": "microcontrollers",
    "pi-": "boards",
    "jetson-": "Jetsons",
    "xavier-": "Jetsons",
    "orin-": "Jetsons",
    "phone-": "phones",
    "5g-": "cellular",
    "nb-iot-": "NB-IoT and LTE-M",
    "ble": "BLE, Zigbee, LoRa",
    "zigbee": "BLE, Zigbee, LoRa",
    "lora-": "BLE, Zigbee, LoRa",
}
"""The groups of `ENERGY` by the first letters of a preset; no other was compared with a meter."""
