"""Tests of fedsim.sim."""
