"""Reading what runs have written, as pandas tables."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedsim.record.folder import SUMMARY
from fedsim.record.parts import read_table


def run_folders(folder: Path) -> list[Path]:
    """Return the run folders in `folder`, or `folder` itself where it is one, in order.

    The order is that of the names, but for `base`, which comes first, and seeds, which
    count.
    """
    if list(_tables(folder)):
        return [folder]
    found = {
        path.parent
        for pattern in ("events.parquet", "events.parts")
        for path in folder.glob(f"*/seed-*/{pattern}")
    }
    return sorted(found, key=_place)


def read_run(folder: Path, name: str) -> pd.DataFrame:
    """Read "events", "rounds" or "clients" of one run, ended or not.

    Raises:
        FileNotFoundError: the run has no such table.
    """
    frame: pd.DataFrame = read_table(folder, name).to_pandas()
    return frame


def read_all(folder: Path, name: str) -> pd.DataFrame:
    """Read a table of all runs in a folder, with the columns variant and seed in front.

    Raises:
        FileNotFoundError: the folder holds no runs.
    """
    tables = []
    for path in run_folders(folder):
        table = read_table(path, name)
        table = table.drop_columns(
            [own for own in ("variant", "seed") if own in table.column_names]
        )
        variant = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(len(table), dtype=np.int32)), pa.array([path.parent.name])
        )
        seed = pa.array(np.full(len(table), int(path.name.removeprefix("seed-"))))
        tables.append(table.add_column(0, "seed", seed).add_column(0, "variant", variant))
    if not tables:
        raise FileNotFoundError(f"{folder} holds no runs")
    joined = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
    frame: pd.DataFrame = joined.to_pandas()
    return frame


def read_summaries(folder: Path) -> pd.DataFrame:
    """Read the summaries of all runs in a folder that have ended, a row each."""
    rows: list[dict[str, Any]] = [
        json.loads((path / SUMMARY).read_text(encoding="utf-8"))
        for path in run_folders(folder)
        if (path / SUMMARY).exists()
    ]
    return pd.json_normalize(rows)


def _tables(folder: Path) -> Iterator[Path]:
    yield from (
        folder / name for name in ("events.parquet", "events.parts") if (folder / name).exists()
    )


def _place(folder: Path) -> tuple[bool, str, int]:
    seed = folder.name.removeprefix("seed-")
    return folder.parent.name != "base", folder.parent.name, int(seed) if seed.isdecimal() else 0
