"""A video frame from few sums of its pixels (Jeong, Needell, Qin, FedGradMP, 2024, Figure 2).

    python analysis/papers/fedgradmp_video.py [--out DIR] [--set KEY=VALUE] [--seeds N] [PART ...]

The only part is video: a video of 320 x 240 pixels is made, two discs and a bar that move over a
still background. Blocks of 8 x 8 pixels are averaged, as a matrix of sums of all 76,800 would
take half a gigabyte. From all frames but the last K-SVD learns atoms; of the last, 20 clients have
40 random sums of its 1200 pixels each. Draws analysis/figures/fedgradmp-video.png.

The paper's own video is not to be had, and what its figure shows in detail could not be seen.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

import fedsim
from fedsim.analysis import entitle, listing, panels, run_parts, save

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/papers/fedgradmp-video.yaml"
FIGURES = ROOT / "analysis/figures"

PARTS = ("video",)
LABELS = {"base": "FedGradMP, K-SVD", "fediter-ht": "FedIter-HT, pixels", "fedavg": "FedAvg"}
MARKS = (1, 2, 5, 10, 30)
"""The rounds at which errors are shown."""

HEIGHT, WIDTH, BLOCK = 240, 320, 8
FRAMES, CLIENTS, SUMS = 301, 20, 40

Pixels = NDArray[np.float64]


def frame(time: float) -> Pixels:
    """Return a frame, shape (30, 40), brightness from 0 to 1, at a time from 0 to 1."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    shown = 0.2 + 0.2 * x / WIDTH + 0.1 * np.sin(y / 30)
    angle = 2 * np.pi * time
    for radius, brightness, turns in ((40, 0.9, 3), (25, 0.05, -5)):
        cx, cy = WIDTH / 2 + 100 * np.cos(turns * angle), HEIGHT / 2 + 70 * np.sin(turns * angle)
        shown[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = brightness
    shown[np.abs(x - WIDTH / 2 - 120 * np.sin(2 * angle)) < 10] = 0.7
    blocks = shown.reshape(HEIGHT // BLOCK, BLOCK, WIDTH // BLOCK, BLOCK)
    return np.asarray(blocks.mean(axis=(1, 3)))


def make(folder: Path) -> list[str]:
    """Write what the scenario needs, and return the overrides that name it."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    video = np.stack([frame(time).ravel() for time in rng.uniform(size=FRAMES)])
    *before, last = video
    X = rng.standard_normal((CLIENTS * SUMS, last.size))
    client = np.repeat(np.arange(CLIENTS), SUMS)
    np.savez(folder / "frames.npz", signals=np.stack(before))
    np.savez(folder / "video.npz", X=X, y=X @ last, client=client)
    np.savez(folder / "frame.npz", X=np.eye(last.size), y=last)
    return [
        f"problem.data.path={folder / 'video.npz'}",
        f"problem.test.path={folder / 'frame.npz'}",
        f"algorithm.dictionary.path={folder / 'frames.npz'}",
    ]


def error_table(result: fedsim.Result, nothing: float) -> Table:
    """Return a row a method: errors by round, relative to those of a black frame."""
    marks = [mark for mark in MARKS if mark <= result.rounds["round"].max()]
    rows: list[Sequence[str]] = []
    for name, label in LABELS.items():
        own = result.rounds[result.rounds["variant"] == name].groupby("round")["test_loss"].mean()
        errors = [np.sqrt(own.get(mark, np.nan) / nothing) for mark in marks]
        rows.append((label, *("diverged" if np.isnan(e) else f"{e:.2g}" for e in errors)))
    heads = ("method", *(f"round {mark}" for mark in marks))
    return listing("A frame of 1200 pixels from 800 sums: relative error", heads, rows)


def draw(result: fedsim.Result, truth: Pixels) -> Figure:
    """Draw the frame, and what each method made of it under the first seed."""
    figure, every = panels(4, 2)
    shown = {"the frame": truth} | {
        label: result.model(name, 1).reshape(truth.shape) for name, label in LABELS.items()
    }
    for axis, (label, pixels) in zip(every, shown.items(), strict=True):
        axis.imshow(pixels, cmap="gray", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[], xlabel=label)
        axis.spines[:].set_visible(False)
    entitle(figure, f"FedGradMP: a video frame from few sums\n{result.setting}")
    return figure


def run(
    part: str, out: Path, overrides: Sequence[str] = (), figures: Path | None = FIGURES
) -> tuple[list[Table], str]:
    """Run the part.

    Args:
        part: of `PARTS`.
        out: where the files of the video and the run folders go.
        overrides: of the scenario, "KEY=VALUE".
        figures: where the figure goes; None to draw none.

    Returns:
        The table of errors, and the method that ends nearest.
    """
    made = make((out / "made").resolve())
    truth = np.load(out / "made/frame.npz")["y"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedsim.TheoryWarning)  # that FedIter-HT's batch is constant
        result = fedsim.run(SCENARIO, out=out / part, overrides=[*made, *overrides])
    if figures:
        shape = (HEIGHT // BLOCK, WIDTH // BLOCK)
        save(draw(result, truth.reshape(shape)), figures / f"fedgradmp-{part}.png")
    last = result.rounds[result.rounds["round"] == result.rounds["round"].max()]
    nearest = last.groupby("variant", observed=True)["test_loss"].mean().idxmin()
    nothing = float(np.mean(truth**2)) / 2
    return [error_table(result, nothing)], f"Nearest at the end: {LABELS[str(nearest)]}."


def main() -> None:
    """Run the part, print its table and draw its figure."""
    run_parts(__doc__ or "", PARTS, run)


if __name__ == "__main__":
    main()
