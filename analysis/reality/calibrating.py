"""Does a calibrated simulation predict rounds that it has not seen?

    python analysis/reality/calibrating.py             what was found once (ns3/calibrated.csv)
    python analysis/reality/calibrating.py again       by what ns-3 said once (ns3/rounds.csv)
    python analysis/reality/calibrating.py simulate    after asking ns-3 anew

In each of twelve drawn settings four methods run over ns-3's TCP. The first half of their rounds
calibrates a fleet, from a scenario that has the presets; the second half is predicted. A setting's
true rates, latencies and speeds are drawn from the 90 % intervals of these presets. The error of a
round is that of its predicted duration, the median over seeds of the tasks' spread, relative to
ns-3's; the ranking is that of the methods by the time of their second half.
"""

import csv
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import packets
import pandas as pd
from scipy.stats import kendalltau
from stored import Finding, Findings, read_findings, replacing, write_findings

import fedsim
from fedsim.addons.calibration.api import calibrate
from fedsim.addons.calibration.constants import CannotTell
from fedsim.addons.calibration.logs import read_log

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "ns3/rounds.cc"
TABLE = HERE / "ns3/rounds.csv"
FOUND = HERE / "ns3/calibrated.csv"

SETTINGS = 12
CLIENTS = 4
ROUNDS = 12
"""Of each method; the first half calibrates."""

SEEDS = 3
"""Of the predictions, over the spread of tasks."""

MODELS = ("fluid", "tcp")
DEVICE, RADIO = "cortex-m7", "wifi"
METHODS: Mapping[str, Mapping[str, Any]] = {
    "dense": {},
    "censored": {"algorithm": {"kind": "chb", "step_size": "1/L", "censor": 2.0}},
    "quantised": {
        "algorithm": {"kind": "fedavg", "step_size": "0.05/L", "local_steps": 3},
        "wire": {"up": {"compressor": {"kind": "qsgd", "levels": 16}}},
    },
    "sparse": {
        "algorithm": {"kind": "fedavg", "step_size": "0.05/L", "local_steps": 6},
        "wire": {"up": {"compressor": {"kind": "top-k", "fraction": 0.1}}},
    },
}
"""From many bits and little work to few bits and much work."""

COLUMNS = (
    *("setting", "method", "round", "client", "down_bytes", "operations", "up_bytes"),
    *("down_begin", "down_end", "up_begin", "up_end"),
)


@dataclass(frozen=True)
class Setting:
    """A network and its clients, as they are in truth; clients' figures are of shape (CLIENTS,).

    Attributes:
        features: of the problem: each is a number in a message.
        queue: of every link, packets.
        rate: of the server's link, bit/s.
        delay: of the server's link, one way, s.
        up, down: of the clients' links, bit/s.
        own_delay: of the clients' links, one way, s.
        speed: of the clients' devices, flop/s.
        sigma: of the logarithm of a task's time.
        rows: samples of each client, to which its work is proportional.
    """

    features: int
    queue: int
    rate: float
    delay: float
    up: Sequence[float]
    down: Sequence[float]
    own_delay: Sequence[float]
    speed: Sequence[float]
    sigma: float
    rows: int = 30


def draw(number: int) -> Setting:
    """Draw a setting; clients are within the 90 % intervals of their presets."""
    rng = np.random.default_rng([330, number])

    def magnitudes(low: float, high: float, count: int = CLIENTS) -> list[float]:
        return [float(each) for each in np.exp(rng.uniform(np.log(low), np.log(high), count))]

    up, down = magnitudes(3e6, 50e6), magnitudes(3e6, 50e6)
    return Setting(
        features=int(rng.choice([5_000, 20_000, 60_000])),
        queue=int(rng.integers(60, 400)),
        rate=round(sum(up) * magnitudes(0.7, 4.0, 1)[0]),
        delay=round(magnitudes(1e-3, 60e-3, 1)[0], 6),
        up=[round(each) for each in up],
        down=[round(each) for each in down],
        own_delay=[round(each, 6) for each in magnitudes(1e-3, 20e-3)],
        speed=magnitudes(0.04e9, 0.2e9),
        sigma=float(rng.uniform(0.02, 0.1)),
    )


DATA = "data.npz"


def write_data(setting: Setting, folder: Path) -> None:
    """Write the samples of a setting's problem."""
    rng = np.random.default_rng(1)
    rows, features = setting.rows * CLIENTS, setting.features
    scale = np.repeat(np.linspace(0.4, 1.0, CLIENTS), rows // CLIENTS)  # so that some are silent
    X = scale[:, None] * rng.normal(size=(rows, features)) / np.sqrt(features)
    np.savez(folder / DATA, X=X, y=np.sign(X @ rng.normal(size=features)))


def scenario(setting: Setting, model: str, folder: Path) -> dict[str, Any]:
    """Return the study of a setting as a user has it that knows presets, network and stack.

    Args:
        setting: for its network.
        model: of flows.
        folder: of the samples.
    """
    # IP, TCP with timestamps, and PPP; the segments are those of ns3/rounds.cc.
    segment = packets.SEGMENT + packets.HEADERS
    radio = {
        "kind": RADIO,
        "framing": f"{packets.HEADERS} B",
        "packet": f"{segment} B",
    }
    link = {"uplink": f"{setting.rate} bit/s", "downlink": f"{setting.rate} bit/s"}
    network: dict[str, Any] = {
        "model": model,
        "server": {**link, "latency": f"{setting.delay} s"},
    }
    if model == "tcp":
        network["tcp"] = {
            "stack": "ns-3",
            "queue": setting.queue,
            "connections": "new",  # as ns3/rounds.cc opens them
        }
    return {
        "problem": {
            "loss": {"kind": "logistic", "l2": 0.01},
            "data": {"kind": "npz", "path": str(folder / DATA)},
            "split": {"kind": "contiguous"},
            "optimum": "unknown",
        },
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "fleet": [{"count": CLIENTS, "device": DEVICE, "radio": radio}],
        "network": network,
        "stop": {"rounds": ROUNDS},
        "observe": {"every": ROUNDS},
        "variants": {name: dict(changes) for name, changes in METHODS.items()},
    }


# What ns-3 says.


def tasks(setting: Setting, folder: Path) -> pd.DataFrame:
    """Return bytes and operations of each method, round and client, which no network changes."""
    out = folder / "sizes"
    write_data(setting, folder)
    study = fedsim.run(scenario(setting, "fluid", folder), out=out)
    log = read_log(out)
    log["method"] = [list(METHODS)[run] for run in log["run"]]
    assert list(study.summary["variant"]) == list(METHODS)
    keys = ["method", "round", "client"]
    down, work, up = (
        log[log["kind"] == kind].groupby(keys) for kind in ("download", "compute", "upload")
    )
    rows = pd.DataFrame(
        {
            "down_bytes": np.ceil(down["bytes"].sum()).astype(int),
            "operations": work["operations"].sum(),
            "steps": work.size(),
            "up_bytes": np.ceil(up["bytes"].sum()).astype(int),
        }
    ).reset_index()
    rows["client"] = rows["client"].str.removeprefix("client-").astype(int)
    rows["method"] = pd.Categorical(rows["method"], list(METHODS))
    return rows.sort_values(keys, ignore_index=True)


def by_ns3(setting: Setting, rows: pd.DataFrame, number: int, program: Path) -> pd.DataFrame:
    """Return the rows of one setting with what ns-3 says of them."""
    rng, played = np.random.default_rng([331, number]), []
    for _, each in rows.groupby("method", observed=True):
        spread = [rng.lognormal(0.0, setting.sigma, steps).mean() for steps in each["steps"]]
        speeds = np.asarray(setting.speed)[each["client"]]
        seconds = each["operations"].to_numpy() / speeds * spread
        own = zip(setting.up, setting.down, setting.own_delay, strict=True)
        work = zip(each["down_bytes"], seconds, each["up_bytes"], strict=True)
        lines = [
            f"new cubic {setting.queue} {setting.rate} {setting.delay} {CLIENTS}",
            *(f"{up} {down} {delay}" for up, down, delay in own),
            f"{ROUNDS}",
            *(f"{down} {time:.9f} {up}" for down, time, up in work),
        ]
        times = packets.ask(program, "\n".join(lines))
        played.append(each.assign(**dict(zip(COLUMNS[-4:], np.transpose(times), strict=True))))
    return pd.concat(played).assign(setting=number)


def simulate(program: Path) -> None:
    """Ask ns-3 about all settings, and write the table."""
    every = []
    for number in range(SETTINGS):
        with tempfile.TemporaryDirectory() as folder:
            rows = tasks(draw(number), Path(folder))
        every.append(by_ns3(draw(number), rows, number, program))
    table = pd.concat(every)[list(COLUMNS)]
    with replacing(TABLE) as file:
        table.to_csv(file, index=False, float_format="%.9g", lineterminator="\n")


def read() -> pd.DataFrame:
    """Return what ns-3 said once."""
    return pd.read_csv(TABLE)


# Predictions.


def write_recording(rows: pd.DataFrame, path: Path) -> None:
    """Write rounds as a recording of the form that any program can write: CSV.

    Args:
        rows: with COLUMNS, and where it is less than the time between two messages, the `work`.
        path: to write to.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "client", "round", "kind", "start", "end", "bytes", "operations"])
        for row in rows.to_dict("records"):
            head = [list(METHODS).index(row["method"]), row["client"], row["round"]]
            down = row["down_begin"], row["down_end"], row["down_bytes"]
            begun = row["up_begin"] - row["work"] if "work" in row else row["down_end"]
            writer.writerow([*head, "download", *down, ""])
            writer.writerow([*head, "compute", begun, row["up_begin"], 0, row["operations"]])
            writer.writerow([*head, "upload", row["up_begin"], row["up_end"], row["up_bytes"], ""])


def calibrated(given: Mapping[str, Any], recording: Path) -> dict[str, Any]:
    """Return a study with a calibrated fleet; what the recording cannot tell stays as it was."""
    keep: list[str] = []
    while True:
        try:
            found = calibrate(recording, given, each=True, rounds=(1, ROUNDS // 2), keep=keep)
        except CannotTell as refused:
            keep += refused.reasons
        else:
            return {**given, "fleet": found.blocks()}


def predict(study: Mapping[str, Any], trained: Path, folder: Path) -> pd.DataFrame:
    """Return the predicted duration of each method's rounds, the median over seeds.

    A round of one seed in three may wait for a timeout that another one does not have.

    Args:
        study: whose fleet and network are predicted.
        trained: its runs in another world, which are re-priced without training.
        folder: to write to.
    """
    changes = [f"{key}={json.dumps(study[key])}" for key in ("fleet", "network")]
    made = fedsim.reprice(trained, changes, folder)
    rounds = made.rounds.sort_values(["variant", "seed", "round"])
    keys = [rounds["variant"].astype(str), rounds["seed"]]
    rounds["seconds"] = rounds["t"] - rounds.groupby(keys)["t"].shift(fill_value=0.0)
    typical = rounds.groupby([rounds["variant"].astype(str), "round"])["seconds"].median()
    return typical.rename_axis(["method", "round"]).reset_index()


def durations(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what each method's rounds took: columns "method", "round" and "real", s."""
    of_round = rows.groupby(["method", "round"], observed=True)
    return (of_round["up_end"].max() - of_round["down_begin"].min()).rename("real").reset_index()


def compare(rows: pd.DataFrame, predicted: pd.DataFrame) -> Finding:
    """Compare the second half of the rounds with their prediction."""
    both = durations(rows).merge(predicted, on=["method", "round"])
    late = both[both["round"] > ROUNDS // 2]
    sums = late.groupby("method")[["real", "seconds"]].sum()
    tau = float(kendalltau(sums["real"], sums["seconds"]).statistic)
    return Finding((late["seconds"] / late["real"] - 1.0).tolist(), tau)


def findings(number: int) -> Findings:
    """Return the errors of a setting."""
    table = read()
    return list(find(draw(number), table[table["setting"] == number], scenario))


def find(
    setting: Setting, rows: pd.DataFrame, study_of: Callable[[Setting, str, Path], dict[str, Any]]
) -> Iterator[tuple[str, str, Finding]]:
    """Yield the errors of a setting by model and fleet.

    Args:
        setting: its network and clients.
        rows: what was real.
        study_of: returns what a user knows of a setting, by the model and the folder of samples.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_recording(rows, folder / "recording.csv")
        write_data(setting, folder)
        trained = {**study_of(setting, MODELS[0], folder), "seeds": SEEDS}
        fedsim.run(trained, out=folder / "trained")
        for model in MODELS:
            given = study_of(setting, model, folder)
            fleets = {
                "presets": given,
                "calibrated": calibrated(given, folder / "recording.csv"),
            }
            for fleet, study in fleets.items():
                made = predict(study, folder / "trained", folder / f"{model}-{fleet}")
                yield model, fleet, compare(rows, made)


def each_of(
    settings: Sequence[int], find_one: Callable[[int], Findings]
) -> Iterator[tuple[int, Findings]]:
    """Yield what is found in each setting, in their order; in as many processes as processors."""
    if len(settings) == 1:
        yield settings[0], find_one(settings[0])
        return
    with ProcessPoolExecutor(os.cpu_count(), initializer=be_quiet) as pool:
        yield from zip(settings, pool.map(find_one, settings), strict=True)


def find_all() -> None:
    """Compute what is found in all settings, and store it."""
    write_findings(each_of(range(SETTINGS), findings), FOUND)


def be_quiet() -> None:
    """Leave out the warnings of methods whose steps are longer than their theory's."""
    for kind in (fedsim.TheoryWarning, fedsim.RunWarning):
        warnings.simplefilter("ignore", kind)


def lines(found: Iterable[tuple[int, Findings]], *, each: bool = True) -> Iterator[str]:
    """Yield the table of errors, of each setting by itself, or of all of them.

    Args:
        found: what was found in each setting.
        each: which of these.
    """
    every = dict[tuple[str, str], list[Finding]]()
    yield "| model | fleet | setting | median | nine of ten | worst | Kendall's tau |"
    yield "|---|---|---|---|---|---|---|"
    for number, own in found:
        for model, fleet, one in own:
            every.setdefault((model, fleet), []).append(one)
            if each:
                yield _row(model, fleet, str(number), [one])
    if not each:
        for (model, fleet), all_found in every.items():
            yield _row(model, fleet, "all", all_found)


def report(path: Path) -> None:
    """Print what was found once, each setting by itself, and all of them."""
    for line in [*lines(read_findings(path)), "", *lines(read_findings(path), each=False)]:
        print(line)


def _row(model: str, fleet: str, setting: str, found: Sequence[Finding]) -> str:
    errors = np.concatenate([each.errors for each in found])
    sizes, tau = np.abs(errors), np.mean([each.tau for each in found])
    worst = errors[int(sizes.argmax())]
    return (
        f"| `{model}` | {fleet} | {setting} | {100 * np.median(sizes):.1f} %"
        f" | {100 * np.quantile(sizes, 0.9):.1f} % | {100 * worst:+.0f} % | {tau:.2f} |"
    )


def main(arguments: Sequence[str]) -> None:
    """Print the errors, after a computation or a simulation if that is asked for."""
    be_quiet()
    if list(arguments) == ["simulate"]:
        with tempfile.TemporaryDirectory() as folder:
            simulate(packets.compile_ns3(Path(folder), SOURCE))
    elif list(arguments) not in ([], ["again"]):
        sys.exit(f"got {' '.join(arguments)}; expected nothing, or: again, or: simulate")
    if arguments:
        find_all()
    report(FOUND)


if __name__ == "__main__":
    main(sys.argv[1:])
