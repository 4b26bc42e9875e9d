"""Table I of Chen, Blum, Sadler on ijcnn1: published beside measured.

    python analysis/papers/chb.py [--out DIR] [TASK ...]

needs the ijcnn1 file: FEDSIM_DATA names its folder, or `fedsim fetch ijcnn1` gets it. Every
task runs its scenario under scenarios/papers/. HB and GD are printed in the paper with one
iteration more than any count of theirs gives; the number of the network column depends on
an initialisation that the paper does not give, so there the shares are what to look at.
"""

import argparse
import tempfile
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import track

import fedsim
from fedsim.analysis import listing

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios" / "papers"

PUBLISHED = {
    "linear": {"chb": (465, 109), "hb": (1071, 119), "lag": (799, 203), "gd": (1917, 213)},
    "lasso": {"chb": (424, 108), "hb": (1071, 119), "lag": (608, 197), "gd": (1899, 211)},
    "logistic": {
        "chb": (546, 5324),
        "hb": (53244, 5916),
        "lag": (864, 9248),
        "gd": (88866, 9874),
    },
}
"""Transmissions and iterations until the target gap."""

NETWORK = {
    "chb": (1083, 6.24e-6),
    "hb": (4500, 6.34e-6),
    "lag": (1361, 3.75e-5),
    "gd": (4500, 3.79e-5),
}
"""Transmissions in 500 iterations, and the squared gradient norm then."""


def convex_rows(task: str, summary: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return a row a method: published and measured transmissions and iterations."""
    rows: list[tuple[str, ...]] = []
    for row in summary.to_dict("records"):
        transmissions, iterations = PUBLISHED[task][row["algorithm"]]
        rows.append(
            (
                task,
                row["algorithm"],
                f"{transmissions} / {iterations}",
                f"{row['transmissions']} / {row['rounds']}",
                f"{row['transmissions'] - transmissions:+d} / {row['rounds'] - iterations:+d}",
            )
        )
    return rows


def main() -> None:
    """Run the tasks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=list(PUBLISHED), help=", ".join(PUBLISHED))
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = options.out or Path(temporary)
        rows = []
        for task in track(options.tasks, console=Console(stderr=True)):
            result = fedsim.run(SCENARIOS / f"chb-ijcnn1-{task}.yaml", out=out / task)
            rows += convex_rows(task, result.summary)
    heads = ("task", "method", "published", "measured", "difference")
    Console().print(listing("Table I, transmissions / iterations", heads, rows))


if __name__ == "__main__":
    main()
