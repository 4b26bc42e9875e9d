"""`python -m tests.campaigns.worlds`: play many worlds, or one."""

import argparse
import sys
from collections import Counter
from pathlib import Path

from ruamel.yaml import YAML

from .campaign import Played, campaign, played, prepared, report
from .drawing import world
from .found import FOUND, keep, replayed
from .playing import Outcome
from .tally import Tally

_ALIKE = 3
"""Of findings of one sign, so many are made small."""

_OFTEN = 500
"""After so many worlds it is said how far the campaign is."""


def main() -> int:
    """Play what the command line asks for; return 1 where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.worlds", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many worlds")
    parser.add_argument("--seed", type=int, default=1, help="the number of the first one")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument(
        "--out",
        type=Path,
        default=FOUND,
        help="where worlds that fail are written, made small; by default where a test plays them",
    )
    parser.add_argument(
        "--tally", type=Path, help="where ends are kept; worlds that are in it are not replayed"
    )
    parser.add_argument("--world", type=int, help="play this one only, and show it")
    parser.add_argument("--file", type=Path, help="play the world of this file only")
    asked = parser.parse_args()
    if asked.world is not None:
        return _one(asked.world)
    if asked.file is not None:
        return _tell_end(replayed(asked.file))
    numbers = range(asked.seed, asked.seed + asked.count)
    return _many(numbers, asked.jobs, asked.out, Tally(asked.tally))


def tell(text: str) -> None:
    """Say something at once, as a long campaign is watched."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _many(numbers: range, jobs: int, out: Path, tally: Tally) -> int:
    worlds = [each for each in tally.read() if each.number in numbers]
    known = {each.number for each in worlds}
    signs = Counter[str]()
    try:
        for each in campaign([number for number in numbers if number not in known], jobs):
            tally.add(each)
            worlds.append(each)
            _keep_finding(each, signs, out)
            if len(worlds) % _OFTEN == 0:
                tell(f"{len(worlds)} of {len(numbers)} worlds, {signs.total()} new findings")
    except KeyboardInterrupt:
        tell(f"interrupted after {len(worlds)} of {len(numbers)} worlds")
    tell(report(worlds))
    return int(any(each.outcome.end == "finding" for each in worlds))


def _keep_finding(each: Played, signs: Counter[str], out: Path) -> None:
    """Tell of a world that failed, and write it down, if it is one of the first of its kind."""
    if each.outcome.end != "finding":
        return
    tell(f"world {each.number}: {each.outcome.text}")
    signs[each.outcome.sign] += 1
    if signs[each.outcome.sign] <= _ALIKE:
        tell(f"  made small: {keep(each, out)}")


def _one(number: int) -> int:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped there
    yaml.dump(world(number), sys.stdout)
    with prepared() as files:
        ((_, outcome),) = played([number], files)
    return _tell_end(outcome)


def _tell_end(outcome: Outcome) -> int:
    tell(f"{outcome.end}: {outcome.text}")
    return int(outcome.end == "finding")


if __name__ == "__main__":
    sys.exit(main())
