"""Tests of fedsim.computing."""
