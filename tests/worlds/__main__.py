"""`python -m tests.worlds`: play many worlds, or one."""

import argparse
import sys
from pathlib import Path

from ruamel.yaml import YAML

from .campaign import Played, campaign, keep, played, prepared, report
from .drawing import world


def main() -> int:
    """Play what the command line asks for; return 1 where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many worlds")
    parser.add_argument("--seed", type=int, default=1, help="the number of the first one")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--out", type=Path, help="where worlds that fail are written, made small")
    parser.add_argument("--world", type=int, help="play this one only, and show it")
    asked = parser.parse_args()
    if asked.world is not None:
        return _one(asked.world)
    worlds: list[Played] = []
    try:
        for each in campaign(asked.seed, asked.count, asked.jobs):
            worlds.append(each)
            if each.outcome.end == "finding":
                tell(f"world {each.number}: {each.outcome.text}")
    except KeyboardInterrupt:
        tell(f"interrupted after {len(worlds)} of {asked.count} worlds")
    tell(report(worlds))
    findings = [each for each in worlds if each.outcome.end == "finding"]
    if asked.out is not None:  # last, as making a world small takes long
        for each in findings:
            tell(f"world {each.number}: {keep(each, asked.out)}")
    return 1 if findings else 0


def tell(text: str) -> None:
    """Say something at once, as a long campaign is watched."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _one(number: int) -> int:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped there
    yaml.dump(world(number), sys.stdout)
    with prepared() as files:
        ((_, outcome),) = played([number], files)
    tell(f"{outcome.end}: {outcome.text}")
    return int(outcome.end == "finding")


if __name__ == "__main__":
    sys.exit(main())
