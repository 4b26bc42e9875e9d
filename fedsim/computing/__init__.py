"""Evaluators of numeric work; `fedsim.building` chooses one for a run."""

from fedsim.computing.serial import Evaluator, SerialEvaluator

__all__ = ["Evaluator", "SerialEvaluator"]
