"""Compiled kernels: imported only where they compute, since loading Numba takes half a second."""

from fedsim.problems.evaluators.compiled.compiler import COMPILER
from fedsim.problems.evaluators.compiled.drawing import draw_minibatches
from fedsim.problems.evaluators.compiled.pages import DONE, PIECES, WorkQueue
from fedsim.problems.evaluators.compiled.program import CompiledProgram, WorkBatch
from fedsim.problems.evaluators.compiled.sums import add_rows

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
