"""Blocks: the parts of a scenario file, and the base classes that read them.

A block is a frozen, closed pydantic model (`spec`) whose fields are quantities with units
(`quantities`). Its `kind` may choose its class (`choice`), or a preset to start from (`presets`).
"""
