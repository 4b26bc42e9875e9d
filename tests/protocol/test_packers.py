"""A sender has a packer for each field, and one for each receiver of what is not for all."""

import numpy as np

from fedsim.core.ports import DENSE, Array, ClientId, Payload, Structure
from fedsim.wire import Dense, ErrorFeedback, Identity, ValueFormat
from fedsim.wire.packers import Packing
from tests.tiers import every

ONES = np.ones(3)


class Noted(ErrorFeedback):
    """A packer that notes what it was asked to pack, and what it was asked to take back."""

    def __init__(self) -> None:
        super().__init__(Identity(), ValueFormat.FLOAT64, np.random.default_rng(0))
        self.packed: list[Array] = []
        self.taken_back: list[Payload] = []

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        self.packed.append(vector)
        return Dense.of(vector, ValueFormat.FLOAT64)

    def take_back(self, payload: Payload) -> None:
        self.taken_back.append(payload)


class Made:
    """Makes packers, and keeps them by what they were made for."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, int, ClientId | None], Noted] = {}

    def __call__(self, field: str, number: int, to: ClientId | None = None) -> Noted:
        assert (field, number, to) not in self.of
        packer = self.of[field, number, to] = Noted()
        return packer


@every("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]])
def test_every_field_and_receiver_keeps_its_packer(order: list[int]) -> None:
    places: list[tuple[str, ClientId | None]] = [("a", None), ("b", None), ("a", 7), ("b", 7)]
    made = Made()
    packing = Packing(made)
    for turn in range(3):
        for index in order:
            field, to = places[index]
            packing.pack((turn + 1.0) * ONES, field=field, to=to)
    assert {(field, to) for field, _, to in made.of} == set(places)
    for packer in made.of.values():
        assert [vector[0] for vector in packer.packed] == [1.0, 2.0, 3.0]


def test_fields_have_numbers_of_their_own_that_all_receivers_share() -> None:
    """An update tells its field by that number: two fields must never have the same."""
    made = Made()
    packing = Packing(made)
    for field, to in [("a", None), ("b", None), ("a", 7), ("a", 8), ("c", None), ("b", 7)]:
        packing.pack(ONES, field=field, to=to)
    numbers = {(field, to is None): number for field, number, to in made.of}
    assert sorted(numbers.values()) == list(range(len(numbers)))


def test_every_packer_is_asked_to_take_a_payload_back() -> None:
    made = Made()
    packing = Packing(made)
    payload = packing.pack(ONES, field="a")
    packing.pack(ONES, field="b")
    packing.pack(ONES, field="a", to=7)
    packing.take_back(payload)
    assert [packer.taken_back for packer in made.of.values()] == [[payload]] * 3
