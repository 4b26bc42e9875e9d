"""Every file of a run, damaged in every way, read by every command: one readable line, no more.

Damage comes twice: as it comes about, so that the hashes of the manifest do not agree, and with
hashes that do, as in a folder that was written by something else.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fedsim
from fedsim.core.errors import FedsimError
from fedsim.results import report
from fedsim.results.analysis import Comparison, write_traces
from fedsim.results.record.folder import MODELS, RESULTS, SUMMARY, TABLES
from fedsim.results.record.manifest import MANIFEST
from fedsim.results.record.read import read_run
from tests.results.analysis.breaking import Break, dropped, emptied, sealed, table, without
from tests.runs import small

RUN = Path("base/seed-1")
WIFI = "fleet.0.radio=wifi"
HEAVY = ("compare", "report", "trace", "reprice")


def use(command: str, out: Path) -> None:
    """Let a command loose on a folder of runs."""
    match command:
        case "compare":
            Comparison.of([out])
        case "report":
            report.write(out, out.parent / "report.html")
        case "trace":
            write_traces(out, out.parent / "traces")
        case "reprice":
            fedsim.reprice(out, [WIFI], out.parent / "priced")
        case _:
            getattr(fedsim.Result(out, (out / RUN,)), command)


def rewritten(name: str, change: Callable[[bytes], bytes]) -> Break:
    """Return what writes other bytes into a file."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def a_folder(name: str, folder: Path) -> None:
    """Put a folder in the place of a file."""
    (folder / name).unlink()
    (folder / name).mkdir()


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda old: old[: len(old) // 2],
    "no end": lambda old: old[:-9],
    "not UTF-8": lambda old: b"\xff\xfe" + old,
    "zeros": lambda old: old[:10] + bytes(len(old) - 10),
    "a list": lambda _: b"[1]",
    "nested": lambda _: b"[" * 100_000,
    "a long number": lambda _: b'{"schema_version": 1' + b"0" * 5000 + b"}",
}


def in_bytes(name: str) -> Iterator[tuple[str, Break]]:
    """Yield what can happen to any file."""
    yield "gone", without(name)
    yield "a folder", partial(a_folder, name)
    for what, change in BYTES.items():
        yield what, rewritten(name, change)


def in_kinds(name: str, content: dict[str, Any]) -> Iterator[tuple[str, Break]]:
    """Yield what can be wrong with the values of a JSON file whose hash is right."""

    def lay(key: str, value: object, old: bytes) -> bytes:
        return json.dumps({**json.loads(old), key: value}).encode()

    def drop(key: str, old: bytes) -> bytes:
        return json.dumps({k: v for k, v in json.loads(old).items() if k != key}).encode()

    values: tuple[object, ...] = ({}, "\x1b\u202e")
    for key in content:
        yield f"no {key}", sealed(rewritten(name, partial(drop, key)))
        for value in values:
            yield f"{key} {value!r}", sealed(rewritten(name, partial(lay, key, value)))


def in_columns(name: str, whole: pa.Table) -> Iterator[tuple[str, Break]]:
    """Yield what can be wrong with a table whose hash is right.

    A page with gaps takes longer to make than words are to refuse: all columns of a type have
    nulls at once.
    """

    def lay(column: str, values: pa.Array, own: pa.Table) -> pa.Table:
        return own.set_column(own.column_names.index(column), column, values)

    def void(kind: pa.DataType, own: pa.Table) -> pa.Table:
        for column in whole.column_names:
            if whole[column].type == kind:
                own = lay(column, pa.nulls(len(own), kind), own)
        return own

    yield "no rows", sealed(table(name, emptied))
    for column in whole.column_names:
        words = pa.array(["x"] * len(whole))
        if column == whole.column_names[-1]:
            yield f"no {column}", sealed(table(name, dropped(column)))
        yield f"{column} of words", sealed(table(name, partial(lay, column, words)))
    for kind in dict.fromkeys(whole.schema.types):
        yield f"{kind} of nulls", sealed(table(name, partial(void, kind)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "out"
    return fedsim.run(small(stop={"rounds": 2}), out=folder).folder


def misdeeds(whole: Path, place: Path, harm: Break, commands: tuple[str, ...]) -> Iterator[str]:
    """Yield what commands do with a damaged copy that they should not."""
    for command in commands:
        shutil.rmtree(place, ignore_errors=True)
        out = Path(shutil.copytree(whole, place / "out"))
        harm(out / RUN)
        try:
            use(command, out)
        except FedsimError as error:
            if not str(error) or "\n" in str(error):
                yield f"{command} says {str(error)!r}"
        except Exception as error:
            yield f"{command}: {type(error).__name__}: {error}"[:200]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RESULTS, MANIFEST])
def test_damaged_bytes_are_one_readable_error(name: str, whole: Path, tmp_path: Path) -> None:
    commands = (*HEAVY, "summary", *TABLES, MODELS)
    wrong = [
        f"{what}: {text}"
        for what, harm in in_bytes(name)
        for text in misdeeds(whole, tmp_path / "place", harm, commands)
    ]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [SUMMARY, MANIFEST])
def test_values_of_another_kind_are_one_readable_error(
    name: str, whole: Path, tmp_path: Path
) -> None:
    content = json.loads((whole / RUN / name).read_text(encoding="utf-8"))
    wrong = [
        f"{what}: {text}"
        for what, harm in in_kinds(name, content)
        for text in misdeeds(whole, tmp_path / "place", harm, ("report", "reprice"))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", [*TABLES, MODELS])
def test_columns_of_another_kind_are_one_readable_error(
    name: str, whole: Path, tmp_path: Path
) -> None:
    wrong = [
        f"{what}: {text}"
        for what, harm in in_columns(name, read_run_table(whole / RUN, name))
        for text in misdeeds(
            whole, tmp_path / "place", harm, ("report" if name in TABLES else name,)
        )
    ]
    assert wrong == []


def read_run_table(folder: Path, name: str) -> pa.Table:
    return pa.Table.from_pandas(read_run(folder, name), preserve_index=False)
