"""The ways in which the same runs are made, and what is promised of each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

ALL, RESULTS, NOTHING = "log, numbers, files", "log, numbers", "nothing"

PROMISED: dict[str, tuple[str, ...]] = {
    ALL: ("log", "numbers", "files"),
    RESULTS: ("log", "numbers"),
    NOTHING: (),
}
"""What must be the same, by what is promised."""


class Way(NamedTuple):
    """One way of making the runs.

    Attributes:
        name: what is told of it.
        promise: what must be the same as in the first way.
        environment: variables that it is run under.
        arguments: of `tests.campaigns.same_bytes.making`.
        python: the interpreter; none for this one.
        needs: a package without which it is left out.
    """

    name: str
    promise: str
    environment: Mapping[str, str] = {}
    arguments: Sequence[str] = ()
    python: str | None = None
    needs: str | None = None


FIRST = Way("one after the other, hash seed 0", ALL, {"PYTHONHASHSEED": "0"})
"""What all others are held against."""


def few() -> Iterator[Way]:
    """Yield the ways that are tried whenever the project is tested."""
    many = {"PYTHONHASHSEED": "4711", "OPENBLAS_NUM_THREADS": "4", "FEDSIM_THREADS": "3"}
    yield Way("another hash seed, more threads", ALL, many)
    yield Way("two processes", ALL, {}, ("--parallel", "--jobs", "2"))


def ways(pythons: Sequence[str], features: Sequence[str]) -> Iterator[Way]:
    """Yield all ways.

    Args:
        pythons: other interpreters.
        features: sets of instructions that NumPy chooses loops by, from the oldest on.
    """
    for seed in ("1", "4711"):
        yield Way(f"hash seed {seed}", ALL, {"PYTHONHASHSEED": seed})
    elsewhere = {"TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "LANG": "tr_TR.UTF-8"}
    yield Way("another time zone and language", ALL, elsewhere)
    yield Way("every message encoded and decoded", RESULTS, {}, ("--carry", "bytes"))
    yield Way("two processes", ALL, {}, ("--parallel", "--jobs", "2"))
    yield Way("two shards", ALL, {}, ("--parallel", "--shards", "2"))
    cluster = ("--parallel", "--cluster", "local:2")
    yield Way("two workers of Dask", ALL, {}, cluster, needs="distributed")
    for threads in ("1", "3"):
        yield Way(f"evaluators on {threads} threads", ALL, {"FEDSIM_THREADS": threads})
    blas = {"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}
    yield Way("linear algebra offered 4 threads", ALL, blas)
    for python in pythons:
        yield Way(python, RESULTS, {}, (), python)
    for kernel in ("Haswell", "SkylakeX", "Zen", "Nehalem"):
        yield Way(f"OpenBLAS's kernels for {kernel}", NOTHING, {"OPENBLAS_CORETYPE": kernel})
    for number in range(len(features)):
        without = " ".join(features[number:])
        yield Way(f"NumPy without {without}", NOTHING, {"NPY_DISABLE_CPU_FEATURES": without})
