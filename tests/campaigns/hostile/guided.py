"""A search for input that readers cannot stand, guided by the code that it reaches (atheris).

    pip install atheris
    python -m tests.campaigns.hostile.guided data --seconds 600

It ends with the first input that is a fault, which libFuzzer writes into the current folder.
`python -m tests.wire.fuzz_atheris` searches the decoders of the wire.
"""

import argparse
import importlib
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def search(target: str, folder: Path, seconds: int, seed: int) -> None:
    """Search for so long; the process ends, with code 77 where a fault was found.

    Raises:
        ModuleNotFoundError: atheris is not installed.
    """
    atheris: Any = importlib.import_module("atheris")
    packages = {
        "data": ["fedsim.problems.data", "fedsim.core.files"],
        "scenarios": ["fedsim.scenario", "fedsim.core.blocks", "ruamel.yaml"],
    }
    with atheris.instrument_imports(include=packages[target]):
        one, seeds = {"data": _data, "scenarios": _scenarios}[target](folder)
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, content in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(content)
    warnings.simplefilter("ignore")
    options = (f"-max_total_time={seconds}", f"-seed={seed}", "-timeout=30", "-rss_limit_mb=3000")
    quiet = ("-print_final_stats=1", "-max_len=4096")
    atheris.WorldConfig([sys.argv[0], *options, *quiet, str(corpus)], one)
    atheris.Fuzz()


def _data(folder: Path) -> Any:
    """Return what reads a string as a file of data, whose first byte says of which kind."""
    module: Any = importlib.import_module("tests.campaigns.hostile.data")
    files: Any = importlib.import_module("tests.campaigns.hostile.files")
    every = [each for each in files.every() if len(each.files) == 1]

    def one(data: bytes) -> None:
        own = every[data[0] % len(every)] if data else every[0]
        (name,) = own.files
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data[1:])
        _check(module.tried(own, folder, name))

    return one, [bytes([i]) + each.files[next(iter(each.files))] for i, each in enumerate(every)]


def _scenarios(folder: Path) -> Any:
    """Return what reads a string as a scenario's text."""
    module: Any = importlib.import_module("tests.campaigns.hostile.scenarios")
    examples: Any = importlib.import_module("fedsim.scenario.examples")
    path = folder / "scenario.yaml"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        _check(module.tried("text", path, [], folder))

    return one, [each.read_bytes() for each in examples.examples().values()]


def _check(tried: Any) -> None:
    """Raise what libFuzzer keeps the input of.

    Raises:
        AssertionError: it is a fault.
    """
    if tried.outcome == "fault":
        raise AssertionError(tried.text)


def main() -> None:
    """Search as the command line asks for, in a folder of its own."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.hostile.guided", description=__doc__
    )
    parser.add_argument("target", choices=("scenarios", "data"))
    parser.add_argument("--seconds", type=int, default=600, help="how long")
    parser.add_argument("--seed", type=int, default=1, help="of the search")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="hostile-") as folder:
        search(asked.target, Path(folder), asked.seconds, asked.seed)


if __name__ == "__main__":
    main()
