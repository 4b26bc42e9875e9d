"""Compares the two ways in which a world's rounds are played: as events, and in arrays.

    python -m tests.campaigns.worlds.in_arrays --count 10000

Every world is drawn as it comes, again without most of what reacts within a round, so that more of
them are played in arrays at all, and once more with links of the server that are shared. Each file
of a run has to be the same to the last byte.
"""

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.sim.arrays.fits import VARIABLE, why_events
from fedsim.sim.config import WorldConfig

from .campaign import prepared
from .dice import Block
from .drawing import world
from .playing import Bounded, _different

_REACTS: dict[str, set[str]] = {
    "participation": {"quorum", "over", "noticed", "heartbeat"},
    "stop": {"time", "batteries"},
    "network": {"model", "broadcast", "tcp", "wifi", "cell", "lora"},
}
"""The keys of a scenario that let something react within a round."""

_OF_A_CLIENT = {"count", "device", "radio", "carbon", "battery"}
_OF_A_RADIO = {"tries", "lorawan"}
_OF_MARKS = {"charging", "charge", "cutoff", "threshold", "restart"}
"""The keys by which a battery may reach a mark, from above or from below."""


class Compared(NamedTuple):
    """What became of a world: "same", "refused", or how it differs; and why it has events."""

    outcome: str
    why: str = ""


class _PlayedAsEvents(BaseException):
    """A world falls back; no `Exception`, so that nothing handles it as an error of a run."""


def plain(block: Block) -> Block:
    """Return a world without most of what reacts within a round."""
    made = dict(block)
    for key, parts in _REACTS.items():
        own = {k: v for k, v in made.pop(key, {}).items() if k not in parts}
        if own:
            made[key] = own
    if made.get("participation", {}).get("kind") == "asynchronous":
        made["participation"] = {"kind": "full"}
    if made.get("network", {}).get("topology", "star") == "star":
        made["network"] = {"server": {"latency": "10 ms"}}
    if "fleet" in made:
        made["fleet"] = [_plain_group(group) for group in block["fleet"]]
    return made


def shared(block: Block, number: int) -> Block:
    """Return a plain world whose messages share the server's links."""
    rates = ("1 kbit/s", "300 kbit/s", "20 Mbit/s", "unlimited")
    server = {"latency": "10 ms", "uplink": rates[number % 4], "downlink": rates[number // 4 % 4]}
    return {**plain(block), "network": {"server": server}}


def _plain_group(group: Block) -> Block:
    made = {key: value for key, value in group.items() if key in _OF_A_CLIENT}
    radio = made.get("radio")
    if isinstance(radio, dict):
        own = {key: value for key, value in radio.items() if key not in _OF_A_RADIO}
        made["radio"] = own
    if isinstance(battery := made.get("battery"), dict):
        made["battery"] = {key: battery[key] for key in battery.keys() - _OF_MARKS}
    return made


def compared(block: Block, files: Path) -> Compared:
    """Play a world both ways, if it is played in arrays at all.

    Args:
        block: the world.
        files: the folder of the files that it names.
    """
    why = ""

    def only_arrays(setup: WorldConfig) -> str:
        nonlocal why
        if why := why_events(setup):
            raise _PlayedAsEvents
        return ""

    with (
        tempfile.TemporaryDirectory() as out,
        chdir(files),
        warnings.catch_warnings(),
        patch("fedsim.sim.world.Calendar", Bounded),
    ):
        warnings.simplefilter("ignore")
        try:
            with (
                patch("fedsim.sim.world.why_events", only_arrays),
                patch.dict("os.environ", {VARIABLE: "arrays"}),
            ):
                (one,) = fedsim.run(block, out=f"{out}/arrays", check=False).runs
            with patch.dict("os.environ", {VARIABLE: "events"}):
                (other,) = fedsim.run(block, out=f"{out}/events", check=False).runs
        except _PlayedAsEvents:
            return Compared("events", why)
        except ScenarioError:
            return Compared("refused")
        return Compared(f"another {name}" if (name := _different(one, other)) else "same")


def main() -> int:
    """Compare the worlds that the command line asks for; return 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many worlds")
    parser.add_argument("--seed", type=int, default=1, help="the number of the first one")
    asked = parser.parse_args()
    ends, whys = Counter[str](), Counter[str]()
    with prepared() as files:
        for number in range(asked.seed, asked.seed + asked.count):
            kinds = {
                "drawn": world(number),
                "plain": plain(world(number)),
                "shared": shared(world(number), number),
            }
            for name, block in kinds.items():
                try:
                    outcome, why = compared(block, files)
                except Exception as error:
                    outcome, why = f"{type(error).__name__}: {error}", ""
                ends[f"{name}: {outcome}"] += 1
                whys[f"{name}: {why}"] += bool(why)
                if outcome not in {"same", "refused", "events"}:
                    sys.stdout.write(f"world {number}, {name}: {outcome}\n")
                    sys.stdout.flush()
    for count in (ends, whys):
        sys.stdout.writelines(f"{n:7}  {what}\n" for what, n in count.most_common() if n)
    return int(any(each.split(": ")[1] not in {"same", "refused", "events"} for each in ends))


if __name__ == "__main__":
    sys.exit(main())
