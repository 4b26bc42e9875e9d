"""Computing: who evaluates numeric work, and when; `fedsim.building` chooses for a run."""

from fedsim.computing.evaluator import Evaluator
from fedsim.computing.one_by_one import OneByOne

__all__ = ["Evaluator", "OneByOne"]
