"""The virtual world: the only package that knows SimPy and asyncio."""
