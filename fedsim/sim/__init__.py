"""The simulated world: the only package that imports SimPy and asyncio."""
