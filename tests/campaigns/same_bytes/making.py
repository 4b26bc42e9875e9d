"""Makes the runs in one way, in a process of its own, and writes the hashes of what they wrote.

It imports nothing but fedsim and what fedsim needs, so that any Python that has these can run it.
"""

import argparse
import hashlib
import json
import platform
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

import fedsim

from .studies import Study, studies

ROOT = Path(__file__).resolve().parents[3]


def main() -> None:
    """Make what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.same_bytes.making")
    parser.add_argument("out", type=Path)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--parallel", action="store_true", help="studies of several runs alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cluster")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--carry", default="values")
    asked = parser.parse_args()
    hashes: dict[str, dict[str, str]] = {}
    for study in studies(ROOT, asked.few):
        if study.parallel or not asked.parallel:
            hashes |= made(study, asked)
    asked.out.write_text(json.dumps({"facts": facts(), "runs": hashes}), encoding="utf-8")


def made(study: Study, asked: argparse.Namespace) -> dict[str, dict[str, str]]:
    """Make the runs of a study; return the hashes of each, by its name."""
    with tempfile.TemporaryDirectory() as out, warnings.catch_warnings():
        warnings.simplefilter("ignore", fedsim.TheoryWarning)
        runs: list[Path] = []
        for number in range(asked.shards):
            runs += fedsim.run(
                study.source,
                out=out,
                overrides=study.overrides,
                jobs=asked.jobs,
                cluster=asked.cluster,
                carry=asked.carry,
                shard=f"{number + 1}/{asked.shards}" if asked.shards > 1 else None,
            ).runs
        return {f"{study.name}/{run.relative_to(out)}": hashed(run) for run in runs}


def hashed(run: Path) -> dict[str, str]:
    """Return the hash of a run's log, of the numbers in its tables, and of all its files."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    files = hashlib.sha256()
    for file in sorted(run.iterdir()):
        files.update(file.name.encode() + file.read_bytes())
    opened = fedsim.open(run)
    numbers = hashlib.sha256()
    for table in (opened.rounds, opened.clients):
        for name, column in table.items():
            numbers.update(f"{name}".encode() + repr(column.tolist()).encode())
    return {
        "log": manifest["events"]["sha256"],
        "numbers": numbers.hexdigest(),
        "files": files.hexdigest(),
    }


def facts() -> dict[str, Any]:
    """Return what this process computes with."""
    libraries = [each for each in threadpool_info() if each["user_api"] == "blas"]
    kernels = {
        f"{each['internal_api']} {each['version']}, {each.get('architecture', '?')}"
        for each in libraries
    }
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": sorted(kernels),
    }


if __name__ == "__main__":
    main()
