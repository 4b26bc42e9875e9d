"""`python -m tests.campaigns.cluster_faults`: let parts of a cluster fail, many times."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from dask import config

import fedsim
from tests.runs import files

from .cases import STUDY, Case, cases
from .parts import PATIENCE, Parts
from .trial import Ended, tried


def main() -> int:
    """Try what the command line asks for; return 1 where there is a fault."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.cluster_faults",
        description=__doc__,
    )
    parser.add_argument("--count", type=int, default=20, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--case", type=int, help="try this one of them only")
    parser.add_argument("--part", help="try the cases of this part only")
    asked = parser.parse_args()
    chosen = [
        each
        for each in cases(asked.seed, asked.count)
        if asked.case in {None, each.number} and asked.part in {None, each.part}
    ]
    with config.set(PATIENCE):
        ended = list(campaign(chosen))
    tell(table(ended))
    return int(any(each.faults for each in ended))


def campaign(chosen: list[Case]) -> Iterator[Ended]:
    """Try cases, and tell of the faults."""
    with TemporaryDirectory(prefix="cluster-faults-") as home:
        os.environ["FEDSIM_CACHE"] = home
        whole = undisturbed(Path(home) / "whole")
        for blind, several in groupby(chosen, key=lambda case: case.blind):
            parts = Parts(Path(home), blind=blind)
            try:
                for case in several:
                    yield (ended := tried(case, parts, whole))
                    tell(f"{case.called}: {ended.end if ended.struck else 'came too late'}")
                    for fault in ended.faults:
                        tell(f"    FAULT: {fault}")
            finally:
                parts.close()


def tell(text: str) -> None:
    """Say something at once, as a long campaign is watched."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def undisturbed(out: Path) -> Mapping[str, bytes]:
    """Return the files of a study that nothing happened to."""
    fedsim.run(STUDY, out=out)
    return files(out)


def table(ended: list[Ended]) -> str:
    """Return the counts, by part and way."""
    count, struck, wrong = (
        Counter((each.case.part, each.case.way) for each in ended if counts(each))
        for counts in (lambda _: True, attrgetter("struck"), attrgetter("faults"))
    )
    lines = [
        f"{key[0]:20} {key[1]:14} {count[key]:5} {struck[key]:7} {wrong[key]:7}"
        for key in sorted(count)
    ]
    head = "part                 way            cases  struck  faults"
    total = f"{'all':35} {len(ended):5} {struck.total():7} {wrong.total():7}"
    return "\n".join([head, *lines, total])


if __name__ == "__main__":
    sys.exit(main())
