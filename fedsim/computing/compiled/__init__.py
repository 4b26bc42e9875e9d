"""Compiled kernels: imported only where they compute, since loading Numba takes half a second."""

from fedsim.computing.compiled.compiler import COMPILER
from fedsim.computing.compiled.drawing import draw_minibatches
from fedsim.computing.compiled.pages import DONE, PIECES, WorkQueue
from fedsim.computing.compiled.program import CompiledProgram, WorkBatch
from fedsim.computing.compiled.sums import add_rows

__all__ = [
    "COMPILER",
    "DONE",
    "PIECES",
    "CompiledProgram",
    "WorkBatch",
    "WorkQueue",
    "add_rows",
    "draw_minibatches",
]
