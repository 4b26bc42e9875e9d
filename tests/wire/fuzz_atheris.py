"""A longer search for bytes that the decoder cannot stand, guided by coverage (atheris).

It runs until it is stopped, or for as long as libFuzzer's options say, and ends with the first
bytes that raise anything but DecodeError:

    pip install atheris
    python -m tests.wire.fuzz_atheris -max_total_time=600
"""

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def main(arguments: list[str]) -> None:
    """Fuzz the decoder, starting from one encoding of every kind."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["fedsim.wire"]):
        hostile: Any = importlib.import_module("tests.wire.hostile")

    def test_one_input(data: bytes) -> None:
        hostile.is_read(data)

    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(hostile.genuine(np.random.default_rng(0))):
            (Path(folder) / str(number)).write_bytes(data)
        atheris.WorldConfig([sys.argv[0], *arguments, folder], test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
