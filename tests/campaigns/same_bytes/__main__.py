"""`python -m tests.campaigns.same_bytes`: make runs in every way, and print what was the same."""

import argparse
import sys

import numpy as np

from .comparing import HEAD, compared, row
from .ways import few, ways


def main() -> int:
    """Compare; return 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.same_bytes", description=__doc__
    )
    parser.add_argument("--few", action="store_true", help="some of the scenarios, in two ways")
    parser.add_argument("--only", default="", help="ways whose names have this in them")
    parser.add_argument(
        "--python", action="append", default=[], help="another interpreter that has fedsim"
    )
    asked = parser.parse_args()
    known = few() if asked.few else ways(asked.python, features())
    chosen = (way for way in known if asked.only in way.name)
    tell(HEAD)
    broken = 0
    for seen in compared(chosen, ["--few"] if asked.few else []):
        tell(row(seen))
        broken += len(seen.broken)
        for name in seen.broken:
            tell(f"not as promised: {name}")
    return int(broken > 0)


def features() -> list[str]:
    """Return the sets of instructions that this NumPy chooses by and this processor has."""
    found: list[str] = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return found


def tell(text: str) -> None:
    """Say something at once, as it takes a while."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
