"""Tests of fedsim.scenario."""
