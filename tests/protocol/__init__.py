"""Tests of fedsim.protocol."""
