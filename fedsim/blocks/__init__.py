"""Blocks: what a scenario file is made of, and what every class that reads one is built on.

A block is a frozen, closed pydantic model (`spec`) whose fields are quantities with units
(`quantities`), which may be chosen by its `kind` (`choice`) or start from a preset (`presets`).
"""
