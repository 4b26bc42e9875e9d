"""Does a calibrated simulation predict rounds of a live run over shaped links?

    python analysis/reality/live_links.py                 what was found once
    python analysis/reality/live_links.py again           by what was measured once
    python analysis/reality/live_links.py measure         after measuring anew (as root)
    python analysis/reality/live_links.py measure 3 5     measuring these settings only
    python analysis/reality/live_links.py repeat          after measuring all once more
    python analysis/reality/live_links.py repeat 3 5      measuring these settings once more
In each of ten drawn settings `fedsim serve` and four `fedsim join` are processes in network
namespaces of their own, joined by links that Linux shapes (see linux/namespaces.py), and run four
methods. The first half of their rounds calibrates a fleet, from a scenario that has the presets;
the second half is predicted. What was measured is in live_links/results.csv, with the load of the
machine beside it in machine.csv, and what is found from it in calibrated.csv, so the table needs no
namespaces; calibrating.py has the methods, and does the same with ns-3. How well can a round be
predicted at all? The same settings were measured once more, in repeats.csv, with the load in
machine-again.csv; repeated.csv has the errors of the first measurement, taken as a prediction of
the second one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import calibrating
import numpy as np
import packets
import pandas as pd
from calibrating import CLIENTS, METHODS, ROUNDS, Setting
from linux.namespaces import SERVER, Links, Star, inside, star
from linux.relay import be_prompt
from stored import Findings, replacing, write_findings

from fedsim.addons.calibration.readers import read_recording

HERE = Path(__file__).resolve().parent
PACED = HERE / "linux/paced.py"
TABLE = HERE / "live_links/results.csv"
MACHINE = HERE / "live_links/machine.csv"
FOUND = HERE / "live_links/calibrated.csv"
REPEATS = HERE / "live_links/repeats.csv"
MACHINE_AGAIN = HERE / "live_links/machine-again.csv"
REPEATED = HERE / "live_links/repeated.csv"

LIVE, BEFORE = "live", "measured before"
"""What stands in the place of a model and its fleet where one measurement predicts another one."""

SETTINGS = 10

SEED = 20261126
"""Of the draws: other settings than those that the model was mended with."""

COLUMNS = (
    *("setting", "method", "round", "client", "down_bytes", "operations", "up_bytes"),
    *("down_begin", "down_end", "work", "up_begin", "up_end"),
)

HEADERS = 52
"""What IP, and TCP with timestamps, add to a segment, bytes."""

PORT = 7000

MOST = 50e6
"""The rate up to which the relay of packets is not late, bit/s."""


def draw(number: int) -> Setting:
    """Draw a setting: clients of 1 to 50 Mbit/s up and down, and round trips of 10 to 300 ms.

    A dense model takes 0.2 to 0.5 s over the slowest link.
    """
    rng = np.random.default_rng([SEED, number])
    up, down = ([packets.magnitude(rng, 1e6, 50e6) for _ in range(CLIENTS)] for _ in range(2))
    trip = packets.magnitude(rng, 1e-2, 0.2)
    own = rng.uniform(0.3, 1.0, CLIENTS) * trip / 2
    largest = packets.magnitude(rng, 0.2, 0.5) * min(*up, *down) / 32
    return Setting(
        features=round(min(max(largest, 2_000), 60_000)),
        queue=int(rng.integers(40, 300)),
        rate=round(min(max(sum(up) * packets.magnitude(rng, 0.5, 3.0), *up), MOST)),
        delay=round(trip / 4, 6),
        up=[round(each) for each in up],
        down=[round(each) for each in down],
        own_delay=[round(float(each), 6) for each in own],
        speed=[packets.magnitude(rng, 0.04e9, 0.2e9) for _ in range(CLIENTS)],
        sigma=float(rng.uniform(0.02, 0.1)),
        rows=200,
    )


def scenario(setting: Setting, model: str, folder: Path) -> dict[str, Any]:
    """Return the study of a setting as a user has it that knows presets, network and stack."""
    study = calibrating.scenario(setting, model, folder)
    framing = {"framing": f"{HEADERS} B", "packet": f"{packets.SEGMENT + HEADERS} B"}
    framing["promotion_time"] = "0 s"  # no radio sleeps here
    study["fleet"] = [{**each, "radio": {**each["radio"], **framing}} for each in study["fleet"]]
    if model == "tcp":
        study["network"]["tcp"] = {"queue": setting.queue, "connections": "kept"}
    return study


# What Linux says.


def links_of(setting: Setting) -> Links:
    """Return the links of a setting."""
    return Links(
        *(setting.rate, setting.delay, setting.queue),
        *(setting.up, setting.down, setting.own_delay),
        control="cubic",
    )


def measure(number: int, setting: Setting, rounds: int = ROUNDS) -> pd.DataFrame:
    """Return the rows of one setting, by live runs of all methods.

    Args:
        number: of the setting.
        setting: its own.
        rounds: of each method.

    Raises:
        Unavailable: this machine does not allow it.
    """
    links = links_of(setting)
    with tempfile.TemporaryDirectory() as name, star(links) as built:
        folder = Path(name)
        calibrating.write_data(setting, folder)
        study = scenario(setting, "fluid", folder)
        study |= {"stop": {"rounds": rounds}, "observe": {"every": rounds}}
        study["evaluator"] = "one-by-one"  # whose work linux/paced.py lengthens
        (folder / "study.yaml").write_text(json.dumps(study), encoding="utf-8")
        _run_live(setting, built, folder)
        recording = read_recording(folder / "recording.csv")
    return rows_of(recording).assign(setting=number)


def _run_live(setting: Setting, built: Star, folder: Path) -> None:
    """Run the study in a folder: the server and each client in a namespace of its own."""
    token = folder / "token"
    token.write_text("of an experiment within one machine", encoding="utf-8")
    common = ["--token", str(token), "--quiet"]
    files = ["--out", str(folder / "runs"), "--record", str(folder / "recording.csv")]
    place = f"{SERVER}:{PORT}"
    serve = [
        "-m",
        "fedsim",
        "serve",
        str(folder / "study.yaml"),
        "--listen",
        place,
        *files,
        *common,
    ]
    with ExitStack() as stack:
        server = stack.enter_context(_process(serve, built.server))
        own = []
        for number, (client, speed) in enumerate(zip(built.clients, setting.speed, strict=True)):
            pace = [str(PACED), str(speed), str(setting.sigma)]
            words = [*pace, "join", place, "--client", str(number), *common]
            own.append(stack.enter_context(_process(words, client)))
        try:
            code = server.wait()
        finally:
            for each in (server, *own):
                each.kill()
    if code:
        raise RuntimeError(f"fedsim serve has ended with {code}")


def _process(words: Sequence[str], namespace: str) -> "subprocess.Popen[bytes]":
    """Start Python in a namespace, before other programs where that is allowed."""
    command = ["nice", "-n", "-15", sys.executable, *words]
    with inside(namespace):
        return subprocess.Popen(command)


def rows_of(recording: pd.DataFrame) -> pd.DataFrame:
    """Return a recording as a row for each method, round and client, with times of the server."""
    recording = recording.assign(
        method=[list(METHODS)[run] for run in recording["run"]],
        client=recording["client"].str.removeprefix("client-").astype(int),
        work=recording["end"] - recording["start"],
    )
    keys = ["method", "round", "client"]
    down, work, up = (
        recording[recording["kind"] == kind].groupby(keys)
        for kind in ("download", "compute", "upload")
    )
    rows = pd.DataFrame(
        {
            "down_bytes": np.ceil(down["bytes"].sum()).astype(int),
            "operations": work["operations"].sum(),
            "up_bytes": np.ceil(up["bytes"].sum()).astype(int),
            "down_begin": down["start"].min(),
            "down_end": down["end"].max(),
            "work": work["work"].sum(),
            "up_begin": up["start"].max(),
            "up_end": up["end"].max(),
        }
    ).reset_index()
    rows["method"] = pd.Categorical(rows["method"], list(METHODS))
    return rows.sort_values(keys, ignore_index=True)


def measure_all(numbers: Sequence[int], path: Path, machine: Path) -> None:
    """Measure some settings, and write them into a table, and into another one their load."""
    be_prompt()
    for number in numbers:
        begun, before = time.monotonic(), os.getloadavg()[0]
        rows = measure(number, draw(number))
        took, after = time.monotonic() - begun, os.getloadavg()[0]
        _replace(path, rows[list(COLUMNS)], number)
        noted = {"setting": number, "seconds": round(took), "before": before, "after": after}
        _replace(machine, pd.DataFrame([noted]), number)
        print(f"setting {number}: {took:.0f} s, load {before:.2f} to {after:.2f}", file=sys.stderr)


def _replace(path: Path, rows: pd.DataFrame, number: int) -> None:
    """Write the rows of a setting into a table."""
    known = pd.read_csv(path) if path.exists() else rows.iloc[:0]
    table = pd.concat([known[known["setting"] != number], rows])
    table = table.sort_values("setting", kind="stable")
    with replacing(path) as file:
        table.to_csv(file, index=False, float_format="%.7g", lineterminator="\n")


def read() -> pd.DataFrame:
    """Return what was measured once."""
    return pd.read_csv(TABLE)


# Predictions.


def findings(number: int) -> Findings:
    """Return the errors of a setting by model and fleet."""
    table = read()
    return list(calibrating.find(draw(number), table[table["setting"] == number], scenario))


def repeated(number: int) -> Findings:
    """Return the errors of a setting's first measurement, as a prediction of its second one."""
    first, second = (table[table["setting"] == number] for table in (read(), pd.read_csv(REPEATS)))
    predicted = calibrating.durations(first).rename(columns={"real": "seconds"})
    return [(LIVE, BEFORE, calibrating.compare(second, predicted))]


def find_all() -> None:
    """Compute what is found in all settings that were measured, and store it."""
    numbers = sorted(set(read()["setting"]))
    write_findings(calibrating.each_of(numbers, findings), FOUND)
    find_repeated()


def find_repeated() -> None:
    """Compute what is found in all settings that were measured twice, and store it."""
    numbers = sorted(set(pd.read_csv(REPEATS)["setting"]))
    write_findings(((number, repeated(number)) for number in numbers), REPEATED)


def main(arguments: Sequence[str]) -> None:
    """Print the errors, after measuring or computing if that is asked for."""
    calibrating.be_quiet()
    first, *others = arguments or [""]
    tables = {"measure": (TABLE, MACHINE), "repeat": (REPEATS, MACHINE_AGAIN)}
    if first in tables and all(each.isdecimal() and int(each) < SETTINGS for each in others):
        measure_all([int(each) for each in others] or range(SETTINGS), *tables[first])
        if others:
            return
    elif list(arguments) not in ([], ["again"]):
        wanted = f"measure or repeat, and numbers of settings up to {SETTINGS - 1}"
        sys.exit(f"got {' '.join(arguments)}; expected nothing, or: again, or: {wanted}")
    if first == "repeat":
        find_repeated()
    elif arguments:
        find_all()
    calibrating.report(FOUND)
    calibrating.report(REPEATED)


if __name__ == "__main__":
    main(sys.argv[1:])
