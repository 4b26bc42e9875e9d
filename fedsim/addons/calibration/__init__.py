"""Calibration: recordings of runs, real or simulated, and a fleet's constants fitted to them."""
