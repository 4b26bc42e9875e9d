"""Scenarios and files that mean harm, read one after the other under a limit of address space.

    python -m tests.campaigns.hostile.beyond_memory FOLDER

makes every file in a folder, reads every scenario as `fedsim check` does, and prints a line of
JSON each: its name, the text of the refusal, and what was raised that is none.
"""

import bz2
import gzip
import json
import lzma
import os
import resource
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.core.errors import ScenarioError
from fedsim.core.memory import VARIABLE
from fedsim.scenario import load
from fedsim.scenario.building import Builder

LIMIT = "300 MB"
ROOM = 700 * 10**6
"""The bytes of address space that reading may take, beside what Python has by then."""

TEXT, ARRAY = 64_000_000, 160_000_000
"""What bombs unpack to, bytes: text is held against the limit many times over."""
GOOD: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared"},
        "data": {"kind": "sklearn", "name": "iris"},
        "split": {"kind": "contiguous", "clients": 3},
    },
    "algorithm": {"kind": "gd", "step_size": 0.1},
}


def zeros(opened: Any, size: int) -> None:
    """Write so many zeros through a compressor."""
    block = b"0" * 2**20
    for _ in range(size // len(block)):
        opened.write(block)


def npy(shape: tuple[int, ...], content: bytes = b"") -> bytes:
    """Return an array that announces a shape, whatever follows."""
    header = BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return header.getvalue() + content


def archive(path: Path, **members: bytes | int) -> None:
    """Write an archive of members; a number is that many zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                if isinstance(content, int):
                    member.write(npy((content // 8,)))
                    zeros(member, content)
                else:
                    member.write(content)


def laughs() -> str:
    """Return XML of a few lines that stands for 10^9 words."""
    entities = ['<!ENTITY a0 "ha">']
    entities += [f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10)]
    return f'<?xml version="1.0"?><!DOCTYPE x [{"".join(entities)}]><graphml>&a9;</graphml>'


def aliases() -> str:
    """Return YAML of a few lines that stands for 10^11 numbers."""
    lines = ["a0: &a0 [0, 0]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "\n".join(lines)


def make_files(folder: Path) -> None:
    """Make all files."""
    for name, opened in (("gz", gzip.open), ("bz2", bz2.open), ("xz", lzma.open)):
        with opened(folder / f"bomb.{name}", "wb") as file:
            zeros(file, TEXT)
    window = bytearray(lzma.compress(b"0"))
    window[14] = 40  # a window of 4 GB, in the header of the first block
    write = {
        "window.xz": bytes(window),
        "far.libsvm": b"1 1:1 2000000000:1\n-1 2:1\n",
        "beyond.libsvm": b"1 1:1 99999999999999999999:1\n",
        "twice.csv": b"y,y\n1,2\n3,4\n5,6\n",
        "table.csv": b"a,y,w\n1,2,0\n3,4,1\n5,6,2\n",
        "labels.csv": "\n".join(["a,y", *(f"1,{label}" for label in range(24000))]).encode(),
        "nul.csv": b"a,y\n1,\0\n" + b"\0" * 1000,
        "quote.csv": b'a,y\n"' + b"1" * 10**6,
        "huge.idx": struct.pack(">HBB3I", 0, 8, 3, *[2**32 - 1] * 3),
        "empty.idx": struct.pack(">HBB3I", 0, 8, 3, 0, 2**32 - 1, 2**32 - 1),
        "many.idx": bytes([0, 0, 8, 255]) + bytes(8),
        "labels.idx": struct.pack(">HBBI", 0, 8, 1, 3) + b"\0\1\2",
        "laughs.graphml": laughs().encode(),
        "wide.graphml": laughs().encode("utf-16"),
        "deep.graphml": b"<graphml>" * 200_000,
        "trace.csv": b"0,1\n" + b"1," + b"9" * 5000 + b"\n",
        "times.txt": b"9" * 400 + b"\n",
        "clients.csv": b"client,start,end\n" + b"9" * 400 + b",0,1\n",
        "aliases.yaml": aliases().encode(),
        "deep.yaml": b"[" * 100_000,
        "deeper.yaml": b"".join(b" " * i + b"a:\n" for i in range(1000)),
        "long.yaml": b"# " + b"x" * 2_000_000,
        "digits.yaml": b"seed: " + b"9" * 5000 + b"\n",
    }  # fmt: skip
    for name, content in write.items():
        (folder / name).write_bytes(content)
    archive(folder / "bomb.npz", X=ARRAY, y=npy((3,), bytes(24)))
    archive(folder / "announced.npz", X=npy((2**40, 2**20), bytes(24)), y=npy((3,), bytes(24)))
    archive(folder / "negative.npz", X=npy((-1, -3), bytes(24)), y=npy((3,), bytes(24)))
    archive(folder / "signals.npz", signals=ARRAY)
    os.mkfifo(folder / "pipe")
    for name in ("pipe.graphml", "pipe.csv", "pipe.yaml"):
        os.mkfifo(folder / name)
    (folder / "folder.csv").mkdir()


def with_data(**data: Any) -> dict[str, Any]:
    """Return a good scenario with other data."""
    return GOOD | {"problem": GOOD["problem"] | {"data": data}}


def scenarios(folder: Path) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield names, sources and overrides."""
    for name in ("bomb.gz", "bomb.bz2", "bomb.xz", "window.xz", "far.libsvm", "beyond.libsvm",
                 "pipe", "folder.csv", "/dev/zero", "/dev/stdin", "a\0b", "x" * 5000):  # fmt: skip
        yield f"libsvm {name[:20]}", with_data(kind="libsvm", path=str(folder / name)), []
    for name in ("bomb.gz", "twice.csv", "nul.csv", "quote.csv", "pipe", "folder.csv", "/dev/zero"):
        yield f"csv {name}", with_data(kind="csv", path=str(folder / name), label="y"), []
    owned = {"kind": "csv", "path": str(folder / "table.csv"), "label": "y"}
    yield "csv label is client", with_data(**owned, client="y"), []
    yield "csv label is client by number", with_data(**owned, client=2), []
    yield "csv column far", with_data(**owned | {"label": 10**300}), []
    for name in ("bomb.npz", "announced.npz", "negative.npz", "pipe", "/dev/zero", "bomb.gz"):
        yield f"npz {name}", with_data(kind="npz", path=str(folder / name)), []
    for name in ("huge.idx", "empty.idx", "many.idx", "bomb.gz", "pipe"):
        paths = {"images": str(folder / name), "labels": str(folder / "labels.idx")}
        yield f"idx {name}", with_data(kind="idx", **paths), []
    for name in ("laughs.graphml", "wide.graphml", "deep.graphml", "pipe.graphml", "pipe.csv",
                 "folder.csv"):  # fmt: skip
        yield (
            f"graph {name}",
            GOOD | {"network": {"topology": "graph", "path": str(folder / name)}},
            [],
        )
    yield from fleets(folder)
    for name in ("aliases.yaml", "deep.yaml", "deeper.yaml", "long.yaml", "digits.yaml",
                 "pipe.yaml", "folder.csv", "/dev/zero"):  # fmt: skip
        yield f"yaml {name}", folder / name, []
    yield from counts(folder)


def fleets(folder: Path) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield fleets that follow files."""

    def fleet(**group: Any) -> dict[str, Any]:
        return GOOD | {"fleet": [{"count": 3, **group}]}

    for name in ("trace.csv", "pipe", "/dev/zero", "folder.csv"):
        path = str(folder / name)
        radio = {"kind": "wifi", "up_trace": {"kind": "csv", "path": path}}
        yield f"rate {name}", fleet(radio=radio), []
        charging = {"kind": "harvest", "path": path}
        yield f"harvest {name}", fleet(device="phone-mid", battery={"charging": charging}), []
    for name in ("times.txt", "pipe", "/dev/zero"):
        radio = {"kind": "wifi", "up_trace": {"kind": "mahimahi", "path": str(folder / name)}}
        yield f"mahimahi {name}", fleet(radio=radio), []
    for name in ("clients.csv", "pipe", "/dev/zero", "folder.csv"):
        there = {"kind": "intervals", "path": str(folder / name)}
        yield f"intervals {name}", fleet(availability=there), []
    for rate in ("1e308 Gbit/s", "1e400 bit/s", "9" * 400 + " Mbit/s"):
        yield f"a rate of {rate[:12]}", fleet(radio={"kind": "wifi", "up": rate}), []


def counts(folder: Path) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield numbers without bound."""
    drawn = {"kind": "sparse-linear", "clients": 3, "rows": 4, "features": 6, "ones": 3}
    for kind, size in (("sparse-linear", 10**8), ("tong", 10**8), ("shifted-mean", 10**9),
                       ("smoothness", 10**9)):  # fmt: skip
        yield f"{kind} features", with_data(kind=kind, features=size), []
    for key in ("clients", "rows", "features"):
        for size in (10**9, 10**300):
            yield f"sparse-linear {key} {size:g}", with_data(**drawn | {key: size}), []
    yield "low-rank", with_data(kind="low-rank", shape=[10**6, 10**6]), []
    free = GOOD | {"problem": GOOD["problem"] | {"split": {"kind": "contiguous"}}}
    for fleet in ([{"count": 10**9}], [{"count": 10**5}] * 500):
        yield f"fleet of {fleet[0]['count']}", free | {"fleet": fleet}, []
    for text in ("fleet=[{count: 1000000000}]", "problem.split.clients=1000000000",
                 "network={topology: tree, gateways: 100000000}", "seeds=1000000000",
                 "problem.loss={kind: mlp, hidden: 1000000000}", "seed=" + "9" * 400,
                 "problem.data={kind: csv, path: x.csv, label: " + "9" * 5000 + "}",
                 "stop.rounds=" + "9" * 4400, "sweep={seed: [1]}",
                 "sweep={algorithm.step_size: {log: [0.1, 1, 9999]}, seeds: {log: [1, 9, 9999]}}",
                 "sweep={algorithm.step_size: {log: [1, 2, 9999]}, stop.gap: {log: [1, 2, 9999]}}",
                 ):  # fmt: skip
        yield text[:60], GOOD, [text]
    pursuit = "algorithm={kind: fedgradmp, sparsity: 2, local_steps: 1, dictionary: "
    for block in ("{kind: gaussian, columns: 1000000000}", "{kind: k-svd, columns: 1000000000}",
                  f"{{kind: k-svd, columns: 8, path: {folder}/signals.npz}}",
                  f"{{kind: k-svd, columns: 8, path: {folder}/pipe}}"):  # fmt: skip
        yield f"dictionary {block[:36]}", GOOD, [f"{pursuit}{block}}}"]
    many = with_data(kind="csv", path=str(folder / "labels.csv"), label="y")
    yield "labels without end", many, ["problem.loss={kind: softmax}"]


def refusal(source: Any, overrides: list[str]) -> dict[str, str]:
    """Return the text of a refusal, or what else has happened."""
    try:
        Builder(load(source, overrides=overrides)).check()
    except ScenarioError as error:
        return {"refused": str(error)}
    except BaseException as error:
        return {"raised": f"{type(error).__name__}: {error}"[:300]}
    return {"raised": "nothing"}


def main(folder: Path, tell: Callable[[str], object]) -> None:
    """Read everything under the limit."""
    Builder(load(GOOD)).check()  # imports what it needs
    make_files(folder)
    os.environ[VARIABLE] = LIMIT
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for name, source, overrides in scenarios(folder):
        tell(json.dumps({"name": name} | refusal(source, overrides)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdout.write)
