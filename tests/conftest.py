"""Shared fixtures, where the real data is, and the two tiers of tests."""

import gc
import os
import signal
from collections.abc import Iterator
from functools import cache
from math import inf
from pathlib import Path

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from fedsim.problems.partition import cache_folder
from tests.tiers import DEFAULT, FEW, Skipped, Tier, extra_of, missing

ROOT = Path(__file__).resolve().parents[1]

# Machines differ in speed and in what else they do, so no example has a deadline. Every run of the
# tests draws the same examples, so that what fails was broken by a change and not by chance; the
# search for new ones is a command of its own, `python -m tests.search`.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, derandomize=False, print_blob=True)
settings.register_profile("few", settings.get_profile("fixed"), max_examples=FEW)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Let property tests be short in the default tier, and every process share compiled kernels.

    Tests are some million objects that live until the end. The garbage collector would look through
    them again and again: while they are collected, a quarter of the time.
    """
    gc.disable()
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "kernels"))
    Tier.few = config.option.markexpr == DEFAULT
    if Tier.few and not config.getoption("--hypothesis-profile", None):
        settings.load_profile("few")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip the files of tests whose libraries are not installed."""
    extra = _extra(module_path)
    if extra and missing(extra):
        return Skipped.from_parent(parent, path=module_path)
    return None


@cache
def _extra(path: Path) -> str | None:
    """Return the extra that a file of tests needs; cached, since a file has many tests."""
    return extra_of(path) if path.is_relative_to(ROOT / "tests") else None


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs an extra, and property tests as slow where they draw all their examples."""
    for item in items:
        if extra := _extra(item.path):
            item.add_marker(pytest.mark.needs(extra))
        for mark in item.iter_markers("needs"):
            if reason := missing(mark.args[0]):
                item.add_marker(pytest.mark.skip(reason=reason))
        if not Tier.few and item.get_closest_marker("hypothesis"):
            item.add_marker(pytest.mark.slow)
    items.sort(key=_place)


def _place(item: pytest.Item) -> float:
    """Return where a test stands among those marked `first`; all others come after them."""
    mark = item.get_closest_marker("first")
    return float(mark.args[0]) if mark else inf


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make, and not at the tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep what the tests cache out of the user's cache, and the user's out of the tests."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSIM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Let linear algebra run on one thread, as it does in runs: more would wait for each other."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt this process and those it starts, as in a terminal.

    Where the shell ignores it, as for a job in the background, every process inherits that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of real files: FEDSIM_DATA, or ../shared/data beside the checkout."""
    folder = Path(os.environ.get("FEDSIM_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "ijcnn1" / "ijcnn1.trn.bz2").exists():
        pytest.skip(f"the real files are not here: no ijcnn1/ijcnn1.trn.bz2 in {folder}")
    return folder


@pytest.fixture
def real_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the catalogue find the real files."""
    monkeypatch.setenv("FEDSIM_DATA", str(data_folder))
    return data_folder
