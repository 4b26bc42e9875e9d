"""Small soaks: memory that Python's allocator traces stays flat, and no file stays open.

Chunks are small here, so that they are filled and written many times.
"""

import multiprocessing
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from .__main__ import faults, report
from .loads import EVENTS, LOADS, go_through
from .measuring import WINDOWS, Sample, growth, left_open, slowing

SIZES = {"events": 192 * EVENTS, "rounds": 640, "runs": 64}


@contextmanager
def _traced() -> Iterator[None]:
    with (
        patch("fedsim.results.record.log._LARGEST_CHUNK", 128),
        patch("fedsim.results.record.rounds._LARGEST_CHUNK", 16),
        patch("fedsim.results.record.rounds._FIRST_CHUNK", 16),
        patch("tests.campaigns.soak.loads.SAMPLES", 64),
    ):
        tracemalloc.start()
        try:
            yield
        finally:
            tracemalloc.stop()


def _samples(load: str, folder: Path) -> list[Sample]:
    with _traced():
        return go_through(load, SIZES[load], folder)


@pytest.mark.parametrize("load", LOADS)
def test_memory_stays_flat_and_no_file_stays_open(load: str, tmp_path: Path) -> None:
    """In a process of its own: what earlier tests have left in this one could grow or shrink."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        samples = alone.submit(_samples, load, tmp_path).result()
    assert samples[-1].done == SIZES[load]
    assert faults(load, samples) == [], report(load, samples)


def test_runs_that_keep_memory_and_files_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = list[object]()
    with ExitStack() as stack:

        def leaking(_: object, out: Path) -> None:
            out.mkdir()
            kept.append(bytearray(4096))
            kept.append(stack.enter_context((out / "log").open("wb")))

        monkeypatch.setattr("fedsim.run", leaking)
        found = faults("runs", _samples("runs", tmp_path))
    assert [text.partition(" by ")[0] for text in found] == ["memory grows", "47 files stay open"]


def take(*, leak: float = 0.0, files: float = 0.0) -> list[Sample]:
    """Return samples of a buffer that fills and is emptied, and of what leaks beside it."""
    return [
        Sample(10 * n, 10**8 + n % 9 * 10**5 + round(10 * n * leak), 7 + round(n * files), n / 10)
        for n in range(200)
    ]


def test_growth_is_that_beneath_buffers_that_fill_and_are_emptied() -> None:
    assert growth(take()) == pytest.approx(0, abs=1e-6)
    assert growth(take(leak=32)) == pytest.approx(32, rel=0.1)
    with pytest.raises(ValueError, match="too few"):
        growth(take()[: 5 * WINDOWS])


def test_what_grows_is_told() -> None:
    assert faults("events", take()) == []
    assert faults("events", take(leak=100)) == ["memory grows by 100 bytes of each, 44 at most"]
    assert faults("runs", take(files=0.1)) == ["15 files stay open"]
    assert left_open(take(files=1)) == 149


def test_slowing_compares_the_last_tenth_with_the_first() -> None:
    quick = take()
    assert slowing(quick) == pytest.approx(1)
    late = [each._replace(seconds=each.seconds + max(0, n - 150)) for n, each in enumerate(quick)]
    assert slowing(late) == pytest.approx(11)
