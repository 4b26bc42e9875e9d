"""The fixtures of the simulated world."""

from tests.sim.conftest import arrays, env, log, pytest_asyncio_loop_factories

__all__ = ["arrays", "env", "log", "pytest_asyncio_loop_factories"]
