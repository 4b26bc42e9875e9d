"""The roster: the clients of a fleet, each made when it is first looked up."""

from collections.abc import Callable, Sequence
from typing import overload

from fedsim.ports import ClientId, Oracle
from fedsim.sim.on_demand import OnDemand, Runs
from fedsim.sim.setup import Member


class Roster(Sequence[Member]):
    """The members of a fleet, each made when it is first asked for.

    Args:
        kinds: for each client one like it: of the same device, radio and group, with a battery or
            not, at rates that reach as much, always there or not. Its loss, and where its traces
            start, may be another client's.
        member: makes one client.

    Attributes:
        kinds: see above.
    """

    def __init__(self, kinds: Runs[Member], member: Callable[[ClientId], Member]) -> None:
        self.kinds = kinds
        self._member = member
        self._made = OnDemand(member)

    @classmethod
    def of(cls, members: Sequence[Member]) -> "Roster":
        """Return the roster of a fleet, whatever sequence it is."""
        return members if isinstance(members, cls) else cls(Runs.of(members), members.__getitem__)

    def oracle(self, client: ClientId) -> Oracle:
        """Return a client's loss; of the client nothing else is made, or kept, for that."""
        made = self._made.get(client)
        return (self._member(client) if made is None else made).oracle

    def __len__(self) -> int:
        return len(self.kinds)

    @overload
    def __getitem__(self, index: int) -> Member: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Member]: ...
    def __getitem__(self, index: int | slice) -> Member | Sequence[Member]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} clients, from 0, and no client {index}")
        return self._made[index]
