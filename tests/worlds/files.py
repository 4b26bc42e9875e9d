"""The files that worlds name: tiny data of every format, traces, harvests and intervals."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array

from .dice import Block

MOST_CLIENTS = 6
ROWS, FEATURES = 30, 4
DEGENERATE = ("zeros", "constant", "one-row", "one-class", "tiny", "huge")
"""Data of which many a formula divides by zero."""


def write_files(folder: Path) -> None:
    """Write all files into a folder."""
    rng = np.random.default_rng(2024)
    X = rng.standard_normal((ROWS, FEATURES))
    classes = np.arange(ROWS) % 3
    clients = np.arange(ROWS) % MOST_CLIENTS
    labels = {
        "regression": X @ np.arange(1.0, FEATURES + 1) + 0.1 * rng.standard_normal(ROWS),
        "binary": np.where(X[:, 0] + 0.3 * rng.standard_normal(ROWS) > 0, 1.0, -1.0),
        "classes": classes.astype(float),
    }
    for task, y in labels.items():
        _write_task(folder, task, X, y, clients)
    _write_degenerate(folder, X, labels["binary"])
    _write_idx(folder, classes)
    _write_physics(folder)


def _write_task(folder: Path, task: str, X: Array, y: Array, clients: NDArray[np.intp]) -> None:
    np.savez(folder / f"{task}.npz", X=X, y=y, client=clients)
    table = np.column_stack([X, y, clients])
    head = ",".join([*(f"x{number}" for number in range(FEATURES)), "y", "client"])
    np.savetxt(folder / f"{task}.csv", table, "%.6g", ",", header=head, comments="")
    lines = [
        " ".join([f"{label:.6g}", *(f"{at + 1}:{x:.6g}" for at, x in enumerate(row))])
        for row, label in zip(X, y, strict=True)
    ]
    (folder / f"{task}.svm").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_degenerate(folder: Path, X: Array, y: Array) -> None:
    sets = {
        "zeros": (np.zeros_like(X), y),
        "constant": (np.ones_like(X), y),
        "one-row": (X[:1], y[:1]),
        "one-class": (X, np.ones_like(y)),
        "tiny": (1e-150 * X, y),
        "huge": (1e150 * X, y),
    }
    for name in DEGENERATE:
        np.savez(folder / f"{name}.npz", X=sets[name][0], y=sets[name][1])


def _write_idx(folder: Path, classes: NDArray[np.intp]) -> None:
    pixels = (7 * np.arange(ROWS * 4) % 251).astype(np.uint8)
    images = struct.pack(">IIII", 0x803, ROWS, 2, 2) + pixels.tobytes()
    (folder / "images.idx").write_bytes(images)
    labels = struct.pack(">II", 0x801, ROWS) + classes.astype(np.uint8).tobytes()
    (folder / "labels.idx").write_bytes(labels)


def _write_physics(folder: Path) -> None:
    texts = {
        "rate.up": "1\n4\n9\n40\n",
        "rate.csv": "0,1\n2.5,0.02\n7,30\n",
        "slow.csv": "0,1e-4\n86400,1e-3\n200000,1e-5\n",
        "sun.csv": "0,0\n21600,2\n43200,4\n64800,0\n",
        "flicker.csv": "0,0.5\n0.2,0\n0.5,0.1\n",
        "there.csv": "client,start,end\n" + "".join(
            f"{client},{5 * client},{50 + 20000 * client}\n{client},200000,5e7\n"
            for client in range(MOST_CLIENTS)
        ),
        "net.csv": "source,target,rate,latency\nserver,hub,5 Mbit/s,10 ms\n" + "".join(
            f"hub,client-{client},1 Mbit/s,{client} ms\n" for client in range(MOST_CLIENTS)
        ),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def named_in(world: Block) -> set[str]:
    """Return the names of the files that a world needs."""
    found: set[str] = set()
    for key, value in world.items():
        blocks = value if isinstance(value, list) else [value]
        for block in blocks:
            if isinstance(block, dict):
                found |= named_in(block)
        if key in {"path", "images", "labels"} and isinstance(value, str) and "." in value:
            found.add(value)
    return found
