"""Files of data for every reader, and what can be wrong with them."""

import bz2
import gzip
import json
import lzma
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from fedsim.problems import data
from fedsim.problems.data import Source
from tests.campaigns.flips.damage import CHANGES

Change = Callable[[bytes, np.random.Generator], bytes]

WORDS = (
    *(b"nan", b"inf", b"-inf", b"1e999", b"-1", b"0", b"99999999999999999999", b"1e-400", b"0x1f"),
    *(
        b"1:1",
        b":",
        b"::",
        b" ",
        b"\t",
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"#",
    ),
    *(
        b",",
        b'"',
        b"'",
        b'""',
        b"[",
        b"]",
        b"{",
        b"}",
        b"null",
        b"true",
        b"[[]]",
        b"{}",
        b"\\u0000",
    ),
    *(
        b'"\\ud800"',
        b"9" * 400,
        b"[" * 2000,
        b"1 " * 300,
        b"a,y\n",
        b"qid:1 ",
        b"1_0",
        b"\xe2\x80\xae",
    ),
    *(b"2147483648:1 ", b"4294967297:1 ", b"-1:1 ", b"0:1 ", b"1:1 1:1 ", b"../../x", b"/dev/zero"),
)
NUMBERS = (0, 1, 2, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1)


def word(content: bytes, rng: np.random.Generator) -> bytes:
    """Put a word in, before or in place of what stands there."""
    place, new = int(rng.integers(len(content) + 1)), WORDS[int(rng.integers(len(WORDS)))]
    return content[:place] + new + content[place + int(rng.integers(3)) * len(new) :]


def number(content: bytes, rng: np.random.Generator) -> bytes:
    """Write another number of two, four or eight bytes, mostly near the front or the end."""
    width, order = [("H", 2), ("I", 4), ("Q", 8)][int(rng.integers(3))], "<>"[int(rng.integers(2))]
    value = NUMBERS[int(rng.integers(len(NUMBERS)))] % 256 ** width[1]
    near = int(rng.integers(min(len(content), 128) + 1))
    place = len(content) - near if rng.random() < 0.3 else near
    return content[:place] + struct.pack(order + width[0], value) + content[place + width[1] :]


def harm(content: bytes, rng: np.random.Generator) -> bytes:
    """Do what a disk or a network does."""
    data = bytearray(content)
    names = [name for name in CHANGES if name != "emptied"] if content else []
    for name in rng.choice(names, int(rng.integers(1, 4))) if names else ():
        if data:
            CHANGES[str(name)](data, rng)
    return bytes(data)


def grown(content: bytes, rng: np.random.Generator) -> bytes:
    """Repeat a piece."""
    place = int(rng.integers(len(content) + 1))
    return (
        content[:place]
        + content[place : place + 40] * int(rng.choice([2, 50, 1000]))
        + content[place:]
    )


ALL: tuple[Change, ...] = (word, word, number, harm, harm, grown)
_PACKERS: tuple[Callable[[bytes], bytes], ...] = (gzip.compress, bz2.compress, lzma.compress)


def changed(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes of a file with one change or a few, some of it packed before or after."""
    packed = rng.random() < 0.1
    if packed and rng.random() < 0.5:
        content = _PACKERS[int(rng.integers(3))](content)
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        content = ALL[int(rng.integers(len(ALL)))](content, rng)
    return _PACKERS[int(rng.integers(3))](content) if packed and rng.random() < 0.5 else content


@dataclass(frozen=True)
class Data:
    """Files that a reader reads.

    Attributes:
        name: of the case.
        source: the reader.
        files: what is in them, by their names within a folder.
        deep: what changes the content of an archive, member by member, where that is one.
    """

    name: str
    source: Source
    files: dict[str, bytes]
    deep: Change | None = None

    def write(self, folder: Path, rng: np.random.Generator | None = None) -> str:
        """Write all files, one of them changed where there is chance; return which."""
        shutil.rmtree(folder, ignore_errors=True)
        names = sorted(self.files)
        harmed = "" if rng is None else names[int(rng.integers(len(names)))]
        for name, content in self.files.items():
            if name == harmed and rng is not None:
                deep = self.deep if rng.random() < 0.5 else None
                content = (deep or changed)(content, rng)  # noqa: PLW2901 - of this file
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return harmed


def npy(array: np.ndarray[Any, Any]) -> bytes:
    """Return an array as NumPy writes it."""
    stream = BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(**members: bytes) -> bytes:
    """Return an archive of members as they are."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return stream.getvalue()


_HEADERS = (
    *(b"'descr': '|O'", b"'descr': '<U99999999'", b"'descr': '<M8[s]'", b"'descr': [('a', '<f8')]"),
    *(b"'shape': (-1, 3)", b"'shape': (1073741824, 1073741824)", b"'shape': 3", b"'shape': ()"),
    *(b"'shape': (0, 9223372036854775807)", b"'descr': '<c16'", b"'fortran_order': 7", b"x" * 60),
    *(b"'shape': (True, 2)", b"'shape': (1.5,)", b"'descr': '<f2'", b"'descr': '<f16'", b"(" * 60),
)


def member(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a member of an archive of arrays, so that the checksums agree."""
    with zipfile.ZipFile(BytesIO(content)) as file:
        members = {each.removesuffix(".npy"): file.read(each) for each in file.namelist()}
    name = str(rng.choice(sorted(members)))
    own = members[name]
    if rng.random() < 0.5:
        key = _HEADERS[int(rng.integers(len(_HEADERS)))]
        start = own.find(key.split(b":")[0])
        end = own.find(b", '", start + 1)
        place = start if start >= 0 else 20
        own = own[:place] + key + own[max(end, place) :]
    else:
        own = changed(own, rng)
    return archive(**{**members, name: own})


def _picture(kind: str, mode: str, rng: np.random.Generator) -> bytes:
    stream = BytesIO()
    shape = (6, 5) if mode == "L" else (6, 5, 3)
    Image.fromarray(rng.integers(256, size=shape, dtype=np.uint8)).save(stream, kind)
    return stream.getvalue()


def _arrow(table: pa.Table) -> bytes:
    stream = BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def _parquet(table: pa.Table) -> bytes:
    stream = BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def every() -> Iterator[Data]:
    """Yield files for every reader of files that there is."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, 3)).round(3), np.tile([0.0, 1.0], 4)
    lines = [
        f"{int(b)} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(a))
        for a, b in zip(X, y, strict=True)
    ]
    for layout in ("auto", "dense", "sparse"):
        source = data.LibSVM(path=Path("a"), layout=layout)
        yield Data("libsvm", source, {"a": "\n".join([*lines, ""]).encode()})
    rows = [
        ",".join(map(str, [*a, int(b), f"c{i % 3}"]))
        for i, (a, b) in enumerate(zip(X, y, strict=True))
    ]
    table = "\n".join(["p,q,r,y,who", *rows, ""]).encode()
    yield Data("csv", data.Csv(path=Path("a"), label="y", client="who"), {"a": table})
    plain = "\n".join(row.rpartition(",")[0] for row in rows).encode()
    yield Data("csv", data.Csv(path=Path("a"), label=4, header=False), {"a": plain})
    yield Data("table", data.Table(path=Path("a"), label="y", client="who"), {"a": table})
    arrays = archive(X=npy(X), y=npy(y), client=npy(np.arange(8)))
    yield Data("npz", data.NpzArchive(path=Path("a")), {"a": arrays}, member)
    images = struct.pack(">HBB3I", 0, 8, 3, 8, 2, 2) + rng.bytes(32)
    labels = struct.pack(">HBBI", 0, 8, 1, 8) + bytes(8)
    yield Data("idx", data.Idx(images=Path("a"), labels=Path("b")), {"a": images, "b": labels})
    yield Data("text", data.Text(path=Path("a"), context=2), {"a": b"to be or not to be"})
    yield from _leaves(X, y)
    yield from _pictures(rng)
    yield from _tables(X, y, rng)


def _leaves(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Iterator[Data]:
    users = {name: {"x": X[i::2].tolist(), "y": y[i::2].tolist()} for i, name in enumerate("ab")}
    texts = {name: {"x": ["abc", "bcd"], "y": ["d", "e"]} for name in "ab"}
    for own in (users, texts):
        counts = [len(each["y"]) for each in own.values()]
        tree = {"users": list(own), "num_samples": counts, "user_data": own}
        yield Data("leaf", data.Leaf(path=Path("a.json")), {"a.json": json.dumps(tree).encode()})


def _pictures(rng: np.random.Generator) -> Iterator[Data]:
    for kind, end in (
        ("PNG", "png"),
        ("JPEG", "jpg"),
        ("BMP", "bmp"),
        ("PPM", "ppm"),
        ("TIFF", "tif"),
        ("WEBP", "webp"),
    ):
        for mode in ("L", "RGB"):
            files = {f"d/{i % 2}/{i}.{end}": _picture(kind, mode, rng) for i in range(4)}
            size = (4, 4) if mode == "L" else None
            yield Data(f"image {end}", data.ImageFolder(path=Path("d"), size=size), files)
    files = {f"d/{i}.png": _picture("PNG", "RGB", rng) for i in range(3)}
    mapping = "client_id,sample_path,label_id\n" + "".join(
        f"{i % 2},{i}.png,{i}\n" for i in range(3)
    )
    source = data.FedScale(mapping=Path("m.csv"), samples=Path("d"))
    yield Data("fedscale", source, {**files, "m.csv": mapping.encode()})
    mapping = "client_id,sample_path,label_id\n" + "".join(f"{i % 2},{i},{i}\n" for i in range(5))
    source = data.FedScale(mapping=Path("m.csv"), samples=Path("a"))
    arrays = archive(X=npy(rng.standard_normal((5, 2))))
    yield Data("fedscale", source, {"a": arrays, "m.csv": mapping.encode()})


def _tables(
    X: np.ndarray[Any, Any], y: np.ndarray[Any, Any], rng: np.random.Generator
) -> Iterator[Data]:
    contents = [{"bytes": _picture("PNG", "L", rng), "path": None} for _ in range(8)]
    kinds = ["no", "yes"] * 4
    plain = pa.table({"f": X.tolist(), "g": X[:, 0], "label": y, "who": kinds})
    seen = pa.table({"image": contents, "label": kinds})
    state = json.dumps({"_data_files": [{"filename": "a.arrow"}], "_indices_files": None}).encode()
    for table, client in ((plain, "who"), (seen, None)):
        source = data.HuggingFace(path=Path("a.parquet"), client=client)
        yield Data("hugging-face parquet", source, {"a.parquet": _parquet(table)})
        saved = {"d/a.arrow": _arrow(table), "d/state.json": state}
        yield Data("hugging-face saved", data.HuggingFace(path=Path("d"), client=client), saved)
