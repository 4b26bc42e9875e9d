"""A client as a method sees it under secure aggregation: what it packs are integers."""

from fedsim.core.ports import DENSE, Array, Payload, Structure
from fedsim.protocol.secrecy.integers import Noise
from fedsim.protocol.wrapping import View


class SecretClient(View):
    """A client whose vectors are rounded to integers, which the server only learns the sum of."""

    def pack(
        self,
        vector: Array,
        structure: Structure = DENSE,
        field: str = "",
        noise: Noise | None = None,
    ) -> Payload:
        """Return a vector as integers; see `fedsim.core.ports.Client.pack`.

        Args:
            vector, structure, field: see there.
            noise: draws integers that are added to those of the vector before they are masked.
        """
        raise NotImplementedError
