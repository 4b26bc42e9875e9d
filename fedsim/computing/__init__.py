"""Computing: who evaluates numeric work, and when; `fedsim.building` chooses for a run."""

from fedsim.computing.serial import Evaluator, OneByOne

__all__ = ["Evaluator", "OneByOne"]
