"""The packer of a malicious client."""

from collections import defaultdict, deque
from functools import partial

import numpy as np

from fedsim.core.ports import DENSE, Array, Packer, Payload, Structure
from fedsim.protocol.attacks.base import Attack


class FalsePacker:
    """Packs, for one field of a malicious client, something else than what it is given.

    Args:
        packer: encodes what is sent instead.
        attack: decides what that is.
        rng: the stream of its draws.
    """

    def __init__(self, packer: Packer, attack: Attack, rng: np.random.Generator) -> None:
        self._packer, self._attack, self._rng = packer, attack, rng
        # By shape: a method may send vectors of different shapes through one packer.
        memory = partial(deque[Array], maxlen=attack.memory)
        self._earlier = defaultdict[tuple[int, ...], deque[Array]](memory)

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return the payload of what is sent in place of a vector."""
        attack = self._attack
        earlier = self._earlier[vector.shape]
        sent = attack.distort(vector, earlier, self._rng)
        if attack.memory:
            earlier.append(vector.copy())
        return self._packer.pack(sent, structure if attack.keeps_structure else DENSE)

    def take_back(self, payload: Payload) -> None:
        """Undo the packing of a payload that is known to be lost."""
        self._packer.take_back(payload)
