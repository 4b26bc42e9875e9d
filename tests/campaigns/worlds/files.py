"""The files that worlds name: tiny data of every format, traces, harvests and intervals."""

import json
import pickle
import struct
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image
from pyarrow import parquet

from fedsim.core.ports import Array

MOST_CLIENTS = 6
PIXELS = (4, 4)
CHARACTERS = "abc "
"""Of the texts, so many that one class for each row has one."""
ROWS, FEATURES = 30, 4
FLOWS = [
    {"time_series": [{"t": 4 * 10**8, "b": 10**5}, {"t": 2 * 10**9, "b": 3 * 10**5}]},
    {"time_series": [{"t": 10**9, "b": 10**5}, {"t": 3 * 10**9, "b": 2 * 10**5}]},
]
"""Of MONROE's: what two flows have carried."""
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
    _write_images(folder, classes, clients)
    _write_saved(folder, X, classes, clients)
    _write_leaf(folder, X, classes)
    np.savez(folder / "signals.npz", signals=X)
    (folder / "letters.txt").write_bytes(bytes((np.arange(ROWS) ** 2 % 7 % 3).tolist()))
    _write_physics(folder)


def _write_task(folder: Path, task: str, X: Array, y: Array, clients: NDArray[np.intp]) -> None:
    np.savez(folder / f"{task}.npz", X=X, y=y, client=clients)
    table = np.column_stack([X, y, clients])
    head = ",".join([*(f"x{number}" for number in range(FEATURES)), "y", "client"])
    np.savetxt(folder / f"{task}.csv", table, "%.6g", ",", header=head, comments="")
    np.savetxt(folder / f"{task}.txt", table, "%.6g", ";")
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


def _picture(row: int) -> Image.Image:
    """Return a small grey image, another one for each row."""
    pixels = (31 * row + 7 * np.arange(PIXELS[0] * PIXELS[1])) % 251
    return Image.fromarray(pixels.astype(np.uint8).reshape(PIXELS))


def _write_images(folder: Path, classes: NDArray[np.intp], clients: NDArray[np.intp]) -> None:
    """Write a folder a class, a folder a client with these in it, and FedScale's tables."""
    head = "client_id,sample_path,label_name,label_id"
    images, rows = [head], [head]
    for row, (label, client) in enumerate(zip(classes, clients, strict=True)):
        name = f"class-{label}/{row:02}.png"
        for path in (folder / "pictures" / name, folder / f"albums/client-{client}" / name):
            path.parent.mkdir(parents=True, exist_ok=True)
            _picture(row).save(path)
        images.append(f"{client},{name},class-{label},{label}")
        rows.append(f"{client},{row},class-{label},{label}")
    for name, lines in (("images", images), ("rows", rows)):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_saved(
    folder: Path, X: Array, classes: NDArray[np.intp], clients: NDArray[np.intp]
) -> None:
    """Write a table as Hugging Face saves it, with a column of images."""
    pictures = [
        {"bytes": (folder / f"pictures/class-{label}/{row:02}.png").read_bytes(), "path": None}
        for row, label in enumerate(classes)
    ]
    columns = {
        "x": pa.array(list(X.astype(np.float32))),
        "picture": pa.array(pictures, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "y": pa.array(classes),
        "client": pa.array([f"user {client}" for client in clients]),
    }
    parquet.write_table(pa.table(columns), folder / "saved.parquet")


def _write_leaf(folder: Path, X: Array, classes: NDArray[np.intp]) -> None:
    """Write users with rows of numbers, and users with texts whose next character is known."""
    users = [f"user {client}" for client in range(MOST_CLIENTS)]
    own = {user: range(client, ROWS, MOST_CLIENTS) for client, user in enumerate(users)}
    said = "abcab c" * ROWS
    contents = {
        "numbers": {
            user: {"x": X[rows].round(4).tolist(), "y": classes[rows].tolist()}
            for user, rows in own.items()
        },
        "texts": {
            user: {
                "x": [said[3 * row : 3 * row + FEATURES] for row in rows],
                "y": [said[3 * row + FEATURES] for row in rows],
            }
            for user, rows in own.items()
        },
    }
    for name, data in contents.items():
        counts = [len(data[user]["y"]) for user in users]
        tree = {"users": users, "num_samples": counts, "user_data": data}
        (folder / f"{name}.json").write_text(json.dumps(tree), encoding="utf-8")


GRID = ((0, 30), (0.0005, 400), (0.001, 250), (6, 90), (18, 0))
"""Hours, and the grams of a kilowatt-hour from then on: steps of seconds, and of hours."""


def _write_physics(folder: Path) -> None:
    texts = {
        "rate.up": "1\n4\n9\n40\n",
        "rate.csv": "0,1\n2.5,0.02\n7,30\n",
        "ucc.csv": "Timestamp,DL_bitrate,UL_bitrate\n2020.02.14_10.00.00,5000,200\n"
        "2020.02.14_10.00.03,90,0\n2020.02.14_10.00.04,20000,3000\n",
        "lumos.csv": "run_num,seq_num,Throughput\n1,1,80\n1,2,0\n1,5,300\n2,7,3\n",
        "pensieve.txt": "0 1\n0.8 4.5\n2 0\n3.1 0.3\n",
        "flows.json": json.dumps({"res_details": {"dl": FLOWS, "ul": FLOWS}}),
        "slow.csv": "0,1e-4\n86400,1e-3\n200000,1e-5\n",
        "sun.csv": "0,0\n21600,2\n43200,4\n64800,0\n",
        "flicker.csv": "0,0.5\n0.2,0\n0.5,0.1\n",
        "grid.csv": "".join(f"{hour},{grams}\n" for hour, grams in GRID),
        "there.csv": "client,start,end\n" + "".join(
            f"{client},{5 * client},{50 + 20000 * client}\n{client},200000,5e7\n"
            for client in range(MOST_CLIENTS)
        ),
        "net.csv": "source,target,rate,latency\nserver,hub,5 Mbit/s,10 ms\n" + "".join(
            f"hub,client-{client},1 Mbit/s,{client} ms\n" for client in range(MOST_CLIENTS)
        ),
        "pairs.csv": "source,target\n" + "".join(
            f"{client},{(client + step) % MOST_CLIENTS}\n"
            for step in (1, 2) for client in range(MOST_CLIENTS)
        ),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    _write_users(folder)


def _write_users(folder: Path) -> None:
    """Write FedScale's and FLASH's traces, for rounds of seconds and for rounds of days."""
    for prefix, scale in (("", 1), ("slow", 10**5)):
        trace = {"active": [0, 40 * scale], "inactive": [25 * scale, 90 * scale]}
        users = {each: trace | {"finish_time": (100 + each) * scale} for each in (1, 2, 3)}
        (folder / f"{prefix or 'there'}.pickle").write_bytes(pickle.dumps(users))
        states = ["wifi", "screen_lock", "battery_charged_on", "4G", "wifi", "screen_unlock"]
        start = datetime(2020, 2, 1)  # noqa: DTZ001 - the traces have no time zone
        times = [start + timedelta(seconds=20 * scale * place) for place in range(len(states))]
        lines = [f"{time}\t{state}" for time, state in zip(times, states, strict=True)]
        tree = {"a": {"messages": "\n".join(lines)}, "b": {"messages": "\n".join(lines[1:])}}
        name = f"{prefix}-states.json".removeprefix("-")
        (folder / name).write_text(json.dumps(tree), encoding="utf-8")
