"""What does it take to compile TCP's kernels, and is a function of them compiled twice?

They are compiled into an empty folder, as at the first use on a machine, in a process of their own.
A function has a version for each combination of its arguments' types. Constants in calls have types
of their own until Numba knows better, and a version, which nothing calls, stays.

    python analysis/benchmarks/compiling.py
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from types import ModuleType

from numba.core.dispatcher import Dispatcher

from fedsim.addons.tcp.compiled import kernel

PACKAGE = kernel.__package__ or ""


def versions(modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, int]]:
    """Yield the functions of TCP's kernels, each with the number of its versions.

    Args:
        modules: by their names.
    """
    for name, module in sorted(modules.items()):
        if name.startswith(PACKAGE):
            for own, value in vars(module).items():
                if isinstance(value, Dispatcher) and value.py_func.__module__ == name:
                    yield f"{name.rpartition('.')[2]}.{own}", len(value.signatures)


def compile_here() -> None:
    """Compile the kernels, and print the processor's time and the functions."""
    begun = time.process_time()
    kernel.load()
    took = time.process_time() - begun
    found = dict(versions(dict(sys.modules)))
    several = [name for name, number in found.items() if number > 1]
    print(
        f"{took:.1f} s of the processor, {sum(found.values())} versions of "
        f"{sum(map(bool, found.values()))} functions; several: {', '.join(several) or 'none'}"
    )


def main() -> None:
    """Compile the kernels into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "here"]
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    if sys.argv[1:] == ["here"]:
        compile_here()
    else:
        main()
