"""Compiled kernels: imported only where a scenario asks for them, for they need Numba."""

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
