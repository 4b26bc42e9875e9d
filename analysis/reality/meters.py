"""How well do powers that were fitted to half of a phone's power log predict the other half?

    python analysis/reality/meters.py            the summary of meters.csv
    python analysis/reality/meters.py CHECKOUT   after fitting the logs of a checkout anew

The logs are those of phones that walked with 4G and 5G: Narayanan et al., "A Variegated Look at 5G
in the Wild", SIGCOMM 2021, https://github.com/SIGCOMM21-5G/artifact, in the folder
Power-Model/MN-Wild/data-processed/merged-logs. Each row is a second: bits down and up, and the
power that a Monsoon meter measured. So each second is a message in each direction, and
`fedsim.addons.calibration` fits the power at rest, the power while connected, and the energy per
bit to the first half of a log. Windows of a twentieth of the second half are predicted.
"""

import csv
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from stored import replacing

from fedsim.addons.calibration.meters import PowerLog
from fedsim.addons.calibration.powers import Metered, fit_powers, second_half_errors
from fedsim.addons.calibration.recording import Observation, as_table
from fedsim.addons.calibration.timeline import timeline
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.physics.radios import Radio
from fedsim.scenario import Group

STORED = Path(__file__).resolve().parent / "meters.csv"
LOGS = "Power-Model/MN-Wild/data-processed/merged-logs"
COLUMNS = ("log", "radio", "direction", "seconds", "windows", "median", "worst", "why")
RADIOS = {"Verizon": "5G, mmWave", "TMobile": "5G, low band"}
LEAST = 200
"""Logs with fewer seconds are left out: a window would be a few seconds."""

Row = Mapping[str, str]


class Summary(NamedTuple):
    """Errors of predicted energies, as shares.

    Attributes:
        logs: the number of logs.
        median: the median over logs of their median errors.
        within: the number of logs whose median is at most 10 %.
        worst: the median over logs of their worst windows.
    """

    logs: int
    median: float
    within: int
    worst: float


def group() -> Group:
    """Return a phone whose radio has no tail: each second is a message."""
    radio = {"kind": "lte", "latency": "0 s", "tail_time": "0 s", "promotion_time": "0 s"}
    return Group.model_validate({"count": 1, "device": "phone-high", "radio": radio})


def metered(table: pd.DataFrame, radio: Radio) -> Metered:
    """Return the log and the activity of a file; seconds without a next one are left out."""
    dates = pd.to_datetime(table["timestamp"])
    times = (dates - dates.iloc[0]).dt.total_seconds().to_numpy(float)
    whole = np.append(np.diff(times) == 1.0, False)
    begin = times[whole]

    def messages(kind: str, column: str) -> Iterator[Observation]:
        for time, rate in zip(begin, table[column].to_numpy(float)[whole], strict=True):
            if rate > 0:
                yield Observation(0, "phone", 0, kind, time, time + 1.0, rate * 1e6 / 8)

    rows = [*messages("download", "downlink_mbps"), *messages("upload", "uplink_mbps")]
    joules = table["avg_power"].to_numpy(float)[whole] / 1e3
    log = PowerLog(begin, begin + 1.0, joules)
    return Metered("phone", timeline(as_table(rows), radio), log)


def fitted(path: Path) -> Row:
    """Return the row of a log; `why` says why there is no figure."""
    seconds = pd.read_csv(path).drop_duplicates("timestamp")
    row = {
        "log": path.stem,
        "radio": RADIOS[str(seconds["provider"].iloc[0])],
        "direction": str(seconds["direction"].iloc[0]),
        "seconds": str(len(seconds)),
    }
    if len(seconds) < LEAST:
        return {**row, "why": f"fewer than {LEAST} seconds"}
    phone = group()
    assert isinstance(phone.radio, Radio)
    try:
        meter = metered(seconds, phone.radio)
        fit_powers(0, phone, [meter])
        errors: Array = np.abs(second_half_errors(phone, [meter]))
    except DataError as error:
        return {**row, "why": str(error)}
    figures = {"windows": str(len(errors)), "median": f"{np.median(errors):.4f}"}
    return {**row, **figures, "worst": f"{errors.max():.4f}", "why": ""}


def read() -> list[Row]:
    """Return the stored rows."""
    with STORED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def summary(rows: list[Row]) -> Summary:
    """Return what the rows with figures say together."""
    shown = [row for row in rows if not row["why"]]
    medians = np.array([float(row["median"]) for row in shown])
    worst = np.array([float(row["worst"]) for row in shown])
    return Summary(
        len(shown),
        float(np.median(medians)),
        int((medians <= 0.10).sum()),
        float(np.median(worst)),
    )


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the table of the page: errors by radio, medians over logs."""
    yield "| radio | logs | used | median window | worst window | logs below 10 % |"
    yield "|---|---|---|---|---|---|"
    for radio in RADIOS.values():
        some = [row for row in rows if row["radio"] == radio]
        found = summary(some)
        figures = f"{100 * found.median:.1f} % | {100 * found.worst:.0f} % | {found.within}"
        yield f"| {radio} | {len(some)} | {found.logs} | {figures} |"


def main() -> None:
    """Fit the logs of a checkout, if one is given, and print the summary."""
    if len(sys.argv) > 1:
        rows = [fitted(path) for path in sorted((Path(sys.argv[1]) / LOGS).glob("*.csv"))]
        with replacing(STORED) as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print("\n".join(table(read())))


if __name__ == "__main__":
    main()
