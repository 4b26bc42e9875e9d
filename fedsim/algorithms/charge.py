"""Censoring by charge: a client whose battery runs low keeps quiet more readily.

Ours, on the ground of censored heavy ball (`fedsim.algorithms.censored`): the threshold eps1
grows as the state of charge s falls, eps1 / s^p, so that the energy which is left goes into
the news that matters most. On mains, and with p = 0, it is CHB.
"""

from typing import ClassVar, Literal

from pydantic import Field

from fedsim.algorithms.censored import CensoredHeavyBall, WorkerMemory
from fedsim.ports import Client


class ChargeAwareHeavyBall(CensoredHeavyBall):
    """Censored heavy ball whose threshold rises as the client's battery falls."""

    kind: Literal["chb-charge"] = "chb-charge"  # type: ignore[assignment]
    source: ClassVar[str] = "fedsim: CHB with the threshold eps1 / charge^p"

    caution: float = Field(default=2.0, ge=0, description="p in eps1 / charge^p")

    def censors(self, innovation: float, client: Client[WorkerMemory]) -> bool:
        """Censor while |delta_m|^2 <= (eps1 / charge^p) |theta^k - theta^{k-1}|^2."""
        charge = 1.0 if client.battery is None else client.battery
        return super().censors(innovation * charge**self.caution, client)
