"""Censoring by charge: a client with a low battery transmits less.

A method of fedsim, derived from censored heavy ball (`fedsim.algorithms.censored`): client m is
silent while

    |delta_m|^2 <= (eps1 / s^p) |theta^k - theta^{k-1}|^2,

where s is its state of charge. So a client with a low battery transmits only its largest
innovations. With p = 0, and for clients on mains power, the method is CHB. `censors` multiplies the
innovation by s^p instead of dividing the threshold, since s may be 0.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field

from fedsim.algorithms.censored import CensoredHeavyBall, WorkerMemory
from fedsim.core.ports import Client


class ChargeAwareHeavyBall(CensoredHeavyBall):
    """Censored heavy ball whose threshold rises as the client's battery falls."""

    kind: Literal["chb-charge"] = "chb-charge"  # type: ignore[assignment]
    source: ClassVar[str] = "fedsim: CHB with the threshold eps1 / charge^p"
    reads_charge: ClassVar[bool] = True

    caution: float = Field(default=2.0, ge=0, description="p in eps1 / charge^p")

    def censors(self, innovation: Any, client: Client[WorkerMemory]) -> Any:
        """Censor while |delta_m|^2 <= (eps1 / charge^p) |theta^k - theta^{k-1}|^2."""
        charge = 1.0 if client.battery is None else client.battery
        return super().censors(innovation * charge**self.caution, client)
