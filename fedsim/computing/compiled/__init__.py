"""Compiled kernels: imported only if a scenario chooses them, since they need Numba."""

from fedsim.computing.compiled.compiler import COMPILER
from fedsim.computing.compiled.loops import draw_minibatches
from fedsim.computing.compiled.pages import DONE, PIECES, Page
from fedsim.computing.compiled.program import CompiledProgram, compilable

__all__ = [
    "COMPILER",
    "DONE",
    "PIECES",
    "CompiledProgram",
    "Page",
    "compilable",
    "draw_minibatches",
]
