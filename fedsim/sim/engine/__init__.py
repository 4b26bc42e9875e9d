"""The engine: an asyncio event loop on a SimPy calendar."""
