"""The cost of a thousand worlds beside fresh runs, in seconds of one processor.

    python analysis/benchmarks/robustness.py

A study of five methods under three seeds is run, and then priced in a thousand worlds: with the
server's link open, and with one that all clients share. Seconds are those in which a processor was
at work; the ratio is to one fresh run of the whole study, made before and after.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fedsim

METHODS: dict[str, dict[str, Any]] = {
    "gd": {"kind": "gd", "step_size": "1/L"},
    "hb": {"kind": "hb", "step_size": "1/L"},
    "chb": {"kind": "chb", "step_size": "1/L"},
    "lag": {"kind": "lag-wk", "step_size": "1/L"},
    "diana": {"kind": "diana", "step_size": "0.5/L"},
}
LINKS = {"open": "unlimited", "shared": "5 Mbit/s"}


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of the processor that something takes."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def overrides(rounds: int, uplink: str) -> list[str]:
    """Return what makes a study of the scenario `censoring`."""
    methods = ", ".join(f"{name}: {{algorithm: {_inline(one)}}}" for name, one in METHODS.items())
    return [
        f"variants={{{methods}}}",
        "seeds=3",
        f"stop={{rounds: {rounds}}}",
        f"network.server.uplink={uplink}",
    ]


def _inline(block: dict[str, Any]) -> str:
    inner = (
        f"{key}: {_inline(value) if isinstance(value, dict) else value}"
        for key, value in block.items()
    )
    return f"{{{', '.join(inner)}}}"


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=300, help="of each run")
    parser.add_argument("--worlds", type=int, default=1000, help="at the least")
    asked = parser.parse_args()
    fedsim.run("censoring", overrides=["stop={rounds: 2}", "variants={}"])  # warm
    for name, uplink in LINKS.items():
        with TemporaryDirectory() as folder:
            print(
                f"{name:8} {measured(Path(folder), overrides(asked.rounds, uplink), asked.worlds)}"
            )


def measured(place: Path, said: list[str], worlds: int) -> str:
    """Return a text with the times to run and to re-price a study."""
    known = []
    before = seconds(lambda: fedsim.run("censoring", out=place / "runs", overrides=said))
    priced = seconds(lambda: known.append(fedsim.robust(place / "runs", worlds=worlds)))
    after = seconds(lambda: fedsim.run("censoring", out=place / "again", overrides=said))
    design, study = known[0].design, (before + after) / 2
    return (
        f"{design.drawn:,} worlds and {design.count - design.drawn:,} on lines: {priced:.1f} s;"
        f" one fresh run of the study: {study:.1f} s; ratio {priced / study:.2f}"
    )


if __name__ == "__main__":
    main()
