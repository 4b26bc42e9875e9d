"""Tests of fedsim.problems.evaluators."""
