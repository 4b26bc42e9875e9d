"""Evaluators of numeric work; `fedsim.scenario.building` chooses one for a run."""

from fedsim.problems.evaluators.serial import Evaluator, SerialEvaluator

__all__ = ["Evaluator", "SerialEvaluator"]
