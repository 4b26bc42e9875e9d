"""Cells of LTE and 5G: links whose capacity is time, which their clients share equally.

At a radio rate R, a bit takes 1/R seconds of the cell's time. Clients that transmit together have
equal shares of the time, so each is as fast as its own R allows. In the fluid network, this is a
flow of usage 1/R and of a weight proportional to R. A flow has one weight for all of its links. So
where the server's link is the bottleneck of several cells, clients share it in proportion to their
radio rates; the fastest radio has the same share as a client outside cells.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from fedsim.core.ports import ClientId
from fedsim.core.ports.bearers import Bearer, Transfer
from fedsim.physics.cells import CellSharing
from fedsim.physics.radios import ConstantRate
from fedsim.physics.run_length import RunLengthSequence, joint
from fedsim.sim.lazy import ComputedSequence
from fedsim.sim.network.flows import Changed, Link, Path
from fedsim.sim.network.fluid import Fluid
from fedsim.sim.network.routing import RoutedLane
from fedsim.sim.network.transmission import FluidPlan

T = TypeVar("T")


class SharedTimeBearer:
    """The bearer of one direction of a client in a cell.

    Args:
        fluid: the fluid network.
        cell: the cell.
        links: the links of the route beyond the cell.
        changed: callback for changes of the rate, if any.
        fastest: the highest rate of all radios in cells, bit/s.
    """

    open = False

    def __init__(
        self,
        fluid: Fluid,
        cell: Link,
        links: Sequence[Link],
        changed: Changed | None,
        fastest: float,
    ) -> None:
        self._fluid, self._cell, self._links = fluid, cell, links
        self._changed, self._fastest = changed, fastest
        self._path: Path | None = None
        self._cap = 0.0

    def start(self, bits: float, cap: float, finished: Callable[[T], None], token: T) -> Transfer:
        """See `Bearer.start`."""
        if self._path is None or cap != self._cap:  # a fading channel has another cap each round
            usage = [1.0 / cap, *[1.0 for _ in self._links]]
            weight = cap / self._fastest  # at most 1, the weight of flows outside cells
            self._path = self._fluid.path([self._cell, *self._links], usage, weight)
            self._cap = cap
        return self._fluid.add(self._path, bits, cap, finished, token, self._changed)


class CellBearers(ComputedSequence[Bearer]):
    """The bearers of one direction by client: those of cells, and those of other clients.

    Args:
        plan: the plan of the fluid network.
        law: the law of the cells.
        members: whether each client is in a cell.
        lanes: the lanes of this direction.
        others: the bearers of clients outside cells.
    """

    def __init__(
        self,
        plan: FluidPlan,
        law: CellSharing,
        members: Sequence[bool],
        lanes: RunLengthSequence[RoutedLane],
        others: Sequence[Bearer],
    ) -> None:
        self._plan, self._law, self._members, self._lanes = plan, law, members, lanes
        self._others = others
        self._cells: dict[int, Link] = {}
        kinds = joint(lanes, RunLengthSequence.of(members)).runs
        self._fastest = max((lane.rate.peak for _, (lane, inside) in kinds if inside), default=1.0)

    def __len__(self) -> int:
        return len(self._lanes)

    def item(self, index: ClientId) -> Bearer:
        """Return the bearer of a client."""
        if not self._members[index]:
            return self._others[index]
        lane = self._lanes[index]._replace(client=index)
        number, plan = self._law.cell(index), self._plan
        if number not in self._cells:
            # In seconds of the cell per second; the load of clients outside the fleet is taken off.
            self._cells[number] = plan.fluid.link(ConstantRate(1.0 - self._law.load))
        cell, callback = self._cells[number], plan.callback(lane)
        return SharedTimeBearer(plan.fluid, cell, plan.links(lane), callback, self._fastest)
