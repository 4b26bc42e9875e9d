"""The server of the simulated world."""

from fedsim.sim.presence import Presence
from fedsim.sim.worlds.server import RoundServer


class SimServer(RoundServer):
    """A server in simulated time: its timers are in the calendar, its messages in lanes."""

    _presence: Presence
