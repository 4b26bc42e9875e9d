"""The live world: the server and the clients of a scenario over TCP, in processes of their own."""

from fedsim.live.api import join, run_live, serve

__all__ = ["join", "run_live", "serve"]
