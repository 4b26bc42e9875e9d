"""Kernels that Python executes, as Numba compiles nothing: the reference for compiled ones."""

import json
import os
import subprocess
import sys
from math import inf

import pytest

from tests.addons.tcp.kernel_cases import CASES, play
from tests.conftest import ROOT


@pytest.mark.slow
def test_compiled_kernels_write_the_same_words_as_python_does() -> None:
    """All ends, and all words of the buffers; objects tell the same of the ends."""
    interpreted = subprocess.run(
        [sys.executable, "-m", "tests.addons.tcp.kernel_cases"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    found = json.loads(interpreted.stdout)
    assert len(found) == len(CASES)
    for case, (told, buffers) in zip(CASES, found, strict=True):
        assert play(case, inf) == (told, [])
        assert play(case, 0.0) == (told, buffers)
        assert buffers
    assert any(again for told, _ in found for *_, again in told)
