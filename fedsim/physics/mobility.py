"""Nodes that move in a plane, and are neighbours within a range of each other.

Between turns a node moves in a straight line at constant speed. So the squared distance of two
nodes is a quadratic function of time until one of them turns. Its roots are the exact times at
which they come into range and leave it. No time steps are needed, and there are no errors from
them.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from math import asinh, cos, hypot, inf, log, pi, radians, sin, sqrt
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.quantities import Metres, MetresPerSecond, Seconds
from fedsim.core.blocks.spec import Given, as_written
from fedsim.core.blocks.wording import printable
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.core.remarks import remark
from fedsim.physics.graphs_in_time import EdgeChange, NeighboursInTime, ReadFile
from fedsim.physics.headers import CLIENT, CLOCK, Column, words
from fedsim.physics.tables import check_clients, read_table


class MotionLeg(NamedTuple):
    """A motion at a constant velocity, or a rest.

    Attributes:
        begin: the start, s.
        end: the end, s; infinite for a final rest.
        x: the place at the start, m.
        y: the place at the start, m.
        vx: the velocity, m/s.
        vy: the velocity, m/s.
    """

    begin: float
    end: float
    x: float
    y: float
    vx: float
    vy: float


Clients = NDArray[np.int_]
Mask = NDArray[np.bool_]


class _Motion:
    """Finds the times at which moving nodes come into range of each other and leave it.

    Args:
        legs: the legs of each node from 0 s; each leg begins where and when the last one ends.
        reach: the range, m.
    """

    def __init__(self, legs: Sequence[Iterator[MotionLeg]], reach: float) -> None:
        self._legs = legs
        self._reach = reach
        self._on = np.array([next(node_legs) for node_legs in legs], dtype=float).reshape(-1, 6)
        self._turns = [0] * len(legs)  # the number of turns of each node
        # Events are (time, node, other, turns of node, turns of other, whether they come into
        # range); other is -1 if the node turns. The turns show whether a prediction is stale.
        self._heap: list[tuple[float, int, int, int, int, int]] = []
        self._near: list[set[int]] = [set() for _ in legs]

    def changes(self) -> Iterator[EdgeChange]:
        """Yield the changes of the graph in the order of time."""
        heap, near, turns = self._heap, self._near, self._turns
        for node in range(len(self._legs)):
            heappush(heap, (self._on[node, 1], node, -1, 0, 0, 0))
            yield from self._first(node)
        while heap:
            time, one, other, turn, far_turn, there = heappop(heap)
            if time == inf:
                return
            if other < 0:
                self._turn(one)
                yield EdgeChange(time, one, one, there=False)
            elif turns[one] == turn and turns[other] == far_turn:
                (near[one].add if there else near[one].discard)(other)
                (near[other].add if there else near[other].discard)(one)
                yield EdgeChange(time, min(one, other), max(one, other), bool(there))

    def _first(self, node: int) -> Iterator[EdgeChange]:
        """Yield the edges of a node to later nodes at 0 s, and predict when they change."""
        others = np.arange(node + 1, len(self._legs))
        away = self._on[others, 2:4] - self._on[node, 2:4]
        inside = (away**2).sum(axis=1) <= self._reach**2
        for other in others[inside].tolist():
            self._near[node].add(other)
            self._near[other].add(node)
            yield EdgeChange(0.0, node, other, there=True)
        self._foresee(node, others, inside, 0.0)

    def _turn(self, node: int) -> None:
        time = self._on[node, 1]
        leg = next(self._legs[node], None)
        if leg is None:  # the node rests at its last place
            place = self._on[node, 2:4] + self._on[node, 4:] * (time - self._on[node, 0])
            leg = MotionLeg(time, inf, float(place[0]), float(place[1]), 0.0, 0.0)
        self._on[node] = leg
        self._turns[node] += 1
        heappush(self._heap, (leg.end, node, -1, 0, 0, 0))
        others = np.delete(np.arange(len(self._legs)), node)
        inside = np.zeros(len(self._legs), dtype=bool)
        inside[list(self._near[node])] = True
        self._foresee(node, others, inside[others], time)

    def _foresee(self, node: int, others: Clients, inside: Mask, now: float) -> None:
        """Predict when other nodes enter and leave a node's range, up to the next turn of either.

        With p and v the differences of places and velocities, |p + v s|^2 = r^2 at a time s from
        now. The next crossing is the root that fits the known state of the pair, in range or not.
        Therefore rounding at the boundary can shift a crossing, but never lose one.

        Args:
            node: the node.
            others: the numbers of other nodes, shape (n,).
            inside: whether each of them is in range now, shape (n,).
            now: the current time, s.
        """
        leg, far = self._on[node], self._on[others]
        place = leg[2:4] + leg[4:] * (now - leg[0])
        away = far[:, 2:4] + far[:, 4:] * (now - far[:, :1]) - place
        drift = far[:, 4:] - leg[4:]
        a, b = (drift**2).sum(axis=1), (away * drift).sum(axis=1)
        # Other nodes are at the distance `reach` when a t^2 + 2 b t + |away|^2 - reach^2 = 0.
        root = b**2 - a * ((away**2).sum(axis=1) - self._reach**2)
        horizon = np.minimum(far[:, 1], leg[1])
        # At equal velocities the distance stays the same, so nothing is predicted.
        moves = a > 0
        half = np.sqrt(np.where(moves, np.maximum(root, 0.0), 0.0))
        a = np.where(moves, a, 1.0)
        enter, leave = now + (-b - half) / a, now + (-b + half) / a
        crosses = moves & ~inside & (root > 0) & (leave > now)
        for times, wanted, there in (
            (enter, crosses & (enter <= horizon), 1),
            (leave, (crosses | (inside & moves)) & (leave <= horizon), 0),
        ):
            for place_of in np.flatnonzero(wanted).tolist():
                other = int(others[place_of])
                turns = self._turns[node], self._turns[other]
                # By rounding, a crossing may come out slightly before now.
                time = max(float(times[place_of]), now)
                heappush(self._heap, (time, node, other, *turns, there))


class Moving(NeighboursInTime):
    """A law of motion of nodes in a plane, with a range within which they are neighbours."""

    range: Metres = Field(description="largest distance between neighbours")

    @abstractmethod
    def legs(self, nodes: int, rng: np.random.Generator) -> Sequence[Iterator[MotionLeg]]:
        """Return the motion of every node, as legs without gaps from 0 s on.

        Raises:
            DataError: the law does not suit the nodes; its key is relative to the block.
        """

    def changes(self, nodes: int, rng: np.random.Generator) -> Iterator[EdgeChange]:
        """See `NeighboursInTime.changes`."""
        yield from _Motion(self.legs(nodes, rng), self.range).changes()


class RandomWaypoint(Moving):
    """Nodes move to a random point in a rectangle, at a random speed, pause there, and repeat.

    Johnson, Maltz, "Dynamic Source Routing in Ad Hoc Wireless Networks", 1996. Places and speeds
    are stationary from the start (Navidi, Camp, "Stationary Distributions for the Random Waypoint
    Mobility Model", IEEE Trans. Mobile Comput. 2004), so nodes are more often in the middle.
    """

    kind: Literal["random-waypoint"] = "random-waypoint"
    width: Metres = as_written("1 km", "width of the rectangle")
    height: Metres = as_written("1 km", "height of the rectangle")
    min_speed: MetresPerSecond = as_written("0.5 m/s", "lowest speed of a leg")
    max_speed: MetresPerSecond = as_written(
        "1.5 m/s", "highest speed of a leg; speeds are uniform between the two"
    )
    pause: Seconds = as_written("0 s", "pause at every waypoint")

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.max_speed < self.min_speed:
            text = f"got {self.max_speed:g} m/s, below min_speed, {self.min_speed:g} m/s"
            raise failure(("max_speed", f"{text}; give at least that", None))
        return self

    def legs(self, nodes: int, rng: np.random.Generator) -> Sequence[Iterator[MotionLeg]]:
        """See `Moving.legs`."""
        seeds = rng.integers(2**63, size=nodes).tolist()
        return [self._walk(np.random.default_rng(seed)) for seed in seeds]

    def _walk(self, rng: np.random.Generator) -> Iterator[MotionLeg]:
        time, place = 0.0, self._point(rng)
        low, high = self.min_speed, self.max_speed
        slowness = log(high / low) / (high - low) if high > low else 1 / low  # mean of 1 / speed
        travel = mean_distance(self.width, self.height) * slowness
        if rng.random() * (self.pause + travel) < self.pause:
            time = rng.random() * self.pause
            yield MotionLeg(0.0, time, *place, 0.0, 0.0)
        else:  # in progress at time 0: longer legs (by rejection) and slower ones are more likely
            goal = self._point(rng)
            while rng.random() * hypot(self.width, self.height) > _distance(place, goal):
                place, goal = self._point(rng), self._point(rng)
            share = rng.random()
            x, y = (start + share * (end - start) for start, end in zip(place, goal, strict=True))
            # The speed of a leg in progress has a density proportional to 1/speed.
            leg = _travel(0.0, (x, y), goal, low * (high / low) ** rng.random())
            time, place = leg.end, goal
            yield leg
            if self.pause:
                yield MotionLeg(time, time + self.pause, *place, 0.0, 0.0)
                time += self.pause
        while True:
            leg = _travel(time, place, goal := self._point(rng), rng.uniform(low, high))
            time, place = leg.end, goal
            yield leg
            if self.pause:
                yield MotionLeg(time, time + self.pause, *place, 0.0, 0.0)
                time += self.pause

    def _point(self, rng: np.random.Generator) -> tuple[float, float]:
        return self.width * rng.random(), self.height * rng.random()


def _distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    return hypot(one[0] - other[0], one[1] - other[1])


def _travel(
    begin: float, place: tuple[float, float], goal: tuple[float, float], speed: float
) -> MotionLeg:
    span = _distance(place, goal) / speed
    vx, vy = ((goal[axis] - place[axis]) / span if span else 0.0 for axis in (0, 1))
    return MotionLeg(begin, begin + span, *place, vx, vy)


def mean_distance(width: float, height: float) -> float:
    """Return the mean distance of two uniform random points in a rectangle.

    Ghosh, "Random distances within a rectangle and between two rectangles", 1951.

    >>> round(mean_distance(1.0, 1.0), 6)
    0.521405
    """
    a, b = width, height
    d = sqrt(a * a + b * b)
    ends = a**3 / b**2 + b**3 / a**2 + d * (3 - a**2 / b**2 - b**2 / a**2)
    return (ends + 2.5 * (b * b / a * asinh(a / b) + a * a / b * asinh(b / a))) / 15


class LevyWalk(Moving):
    """Nodes move in flights of random directions; flight lengths and pauses are heavy-tailed.

    Rhee, Shin, Hong, Lee, Kim, Chong, "On the Levy-Walk Nature of Human Mobility", IEEE/ACM Trans.
    Netw. 2011: lengths and pauses follow truncated power laws with densities l^-(1 + alpha) and
    t^-(1 + beta). A flight of l metres has the speed `speed` * l^`speed_exponent`, which is
    constant by default. Nodes are reflected at the edges of a rectangle, so their places are
    uniform. Places, flights and pauses are stationary from the start.
    """

    kind: Literal["levy-walk"] = "levy-walk"
    width: Metres = as_written("1 km", "width of the rectangle")
    height: Metres = as_written("1 km", "height of the rectangle")
    alpha: float = Field(
        default=1.6, gt=0, le=3, description="exponent of the distribution of flight lengths"
    )
    beta: float = Field(
        default=0.8, gt=0, le=3, description="exponent of the distribution of pauses"
    )
    min_flight: Metres = as_written("1 m", "the shortest flight")
    max_flight: Metres = as_written("1 km", "the longest flight")
    min_pause: Seconds = as_written("20 s", "the shortest pause; 0 s for no pauses")
    max_pause: Seconds = as_written("1 h", "the longest pause")
    speed: MetresPerSecond = as_written("1 m/s", "speed of a flight of one metre")
    speed_exponent: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="rho: speed grows with the length of a flight to this power; 0: constant speed",
    )

    @model_validator(mode="after")
    def _rises(self) -> Self:
        for what, low, high in (
            ("flight", self.min_flight, self.max_flight),
            ("pause", self.min_pause, self.max_pause),
        ):
            if high < low:
                text = f"got {high:g}, below min_{what}, {low:g}; give at least that"
                raise failure((f"max_{what}", text, None))
        return self

    def legs(self, nodes: int, rng: np.random.Generator) -> Sequence[Iterator[MotionLeg]]:
        """See `Moving.legs`."""
        seeds = rng.integers(2**63, size=nodes).tolist()
        return [self._walk(np.random.default_rng(seed)) for seed in seeds]

    def _walk(self, rng: np.random.Generator) -> Iterator[MotionLeg]:
        place, time = (self.width * rng.random(), self.height * rng.random()), 0.0
        flights, pauses = (self.min_flight, self.max_flight), (self.min_pause, self.max_pause)
        slower = 1 - self.speed_exponent  # a flight of l metres takes l^slower / speed
        travel = power_mean(self.alpha, slower, *flights) / self.speed
        rest = power_mean(self.beta, 1.0, *pauses) if self.min_pause else 0.0
        # A flight or pause is in progress at time 0 with a probability proportional to its
        # duration. Time 0 is uniform within it, so a uniform share of it is left.
        share, rests = 1 - rng.random(), rng.random() * (travel + rest) < rest
        # Weighting by its duration lowers the exponent of the law of the one in progress.
        length = draw_power(rng, self.alpha - (0.0 if rests else slower), *flights)
        pause = draw_power(rng, self.beta - 1.0, *pauses) if rests else 0.0
        while True:
            if pause:
                yield MotionLeg(time, time + share * pause, *place, 0.0, 0.0)
                time, share = time + share * pause, 1.0
            speed, angle = self.speed * length**self.speed_exponent, 2 * pi * rng.random()
            velocity = speed * cos(angle), speed * sin(angle)
            for leg in self._bounce(time, place, velocity, share * length / speed):
                yield leg
                time, span = leg.end, leg.end - leg.begin
                place = leg.x + leg.vx * span, leg.y + leg.vy * span
            share = 1.0
            length = draw_power(rng, self.alpha, *flights)
            pause = draw_power(rng, self.beta, *pauses) if self.min_pause else 0.0

    def _bounce(
        self,
        time: float,
        place: tuple[float, float],
        velocity: tuple[float, float],
        span: float,
    ) -> Iterator[MotionLeg]:
        """Yield the legs of a flight, one from wall to wall."""
        (x, y), (vx, vy), end = place, velocity, time + span
        while time < end:
            walls = [
                ((size if v > 0 else 0.0) - at) / v if v else inf
                for at, v, size in ((x, vx, self.width), (y, vy, self.height))
            ]
            first = max(min(walls), 0.0)
            stop = min(time + first, end)
            if stop > time:
                yield MotionLeg(time, stop, x, y, vx, vy)
            # By rounding, a node could leave the rectangle at a wall.
            x = min(max(x + vx * (stop - time), 0.0), self.width)
            y = min(max(y + vy * (stop - time), 0.0), self.height)
            time = stop
            if walls[0] <= first:
                vx = -vx
            if walls[1] <= first:
                vy = -vy


def draw_power(rng: np.random.Generator, exponent: float, low: float, high: float) -> float:
    """Sample a truncated power law with density x^-(1 + exponent) between two positive bounds."""
    share = rng.random()
    if abs(exponent) < _FLAT:
        return float(low * (high / low) ** share)
    ends = low**-exponent, high**-exponent
    return float((ends[0] + share * (ends[1] - ends[0])) ** (-1 / exponent))


def power_mean(exponent: float, power: float, low: float, high: float) -> float:
    """Return the mean of x^power under the law of `draw_power`.

    >>> round(power_mean(2.0, 1.0, 1.0, 1e9), 6)
    2.0
    """
    return _integral(power - exponent, low, high) / _integral(-exponent, low, high)


def _integral(power: float, low: float, high: float) -> float:
    """Return the integral of x^(power - 1) between two bounds."""
    if low == high:
        return float(low**power)  # all mass at one point; the factor cancels in the quotient
    if abs(power) < _FLAT:
        return log(high / low)
    return float((high**power - low**power) / power)


_FLAT = 1e-9  # exponents closer to 0 than this are treated as 0

_WHO = Column("client", words=CLIENT)
_WHEN = Column("time", "s", "s", CLOCK)
_COLUMNS = (
    *(_WHO, _WHEN),
    Column("x", "m", "m", words("x easting")),
    Column("y", "m", "m", words("y northing")),
)
_PLACES = (
    *(_WHO, _WHEN),
    Column("latitude", "deg", "deg", words("latitude lat")),
    Column("longitude", "deg", "deg", words("longitude lon lng long")),
)


def read_positions(path: Path) -> Array:
    """Read traces of positions: a CSV file with columns client (from 0), time (s), x and y (m).

    Columns latitude and longitude, in degrees, are projected to a plane; see `project`. For
    headers, dates and times since 1970 see `fedsim.physics.tables.read_table`.

    Returns:
        Shape (rows, 4), sorted by client and time.

    Raises:
        DataError: the file cannot be read, or a line is malformed.
    """
    table = read_table(path, _COLUMNS, "path", other=_PLACES)
    client, time, x, y = table.columns
    table.refuse_clients(client)
    table.refuse(~((time >= 0) & np.isfinite(time + x + y)), "times are at least 0 s, all finite")
    if table.wanted is _PLACES:
        wrong = (np.abs(x) > 90) | (np.abs(y) > 360)
        table.refuse(
            wrong, "a latitude is from -90 to 90 degrees, and a longitude from -180 to 180"
        )
        x, y = _projected(x, y, path)
    order = np.lexsort((time, client))
    same = (np.diff(client[order]) == 0) & (np.diff(time[order]) <= 0)
    if same.any():
        table.fail(int(order[1:][same][0]), "a client is at one place at a time")
    return np.column_stack([client, time, x, y])[order]


_EQUATOR, _FLATTENING = 6378137.0, 1 / 298.257223563
_DISTORTED = 0.1
"""The largest accepted relative error of a distance by projection."""


def project(latitudes: Array, longitudes: Array) -> tuple[Array, Array, float]:
    """Project places to the plane that touches the ellipsoid in their middle, east and north.

    Distances are arcs of the meridian and of the parallel there, on WGS 84 (NIMA TR8350.2, 2000).
    They are exact to the first order in the distance from the middle.

    Args:
        latitudes: degrees, shape (n,).
        longitudes: degrees, shape (n,).

    Returns:
        x and y, m, each of shape (n,); and the largest relative error of a distance from east to
        west, since parallels differ in length.
    """
    middle = radians((latitudes.min() + latitudes.max()) / 2)
    east = (longitudes - longitudes[0] + 180) % 360 - 180  # also across the meridian of 180 degrees
    east -= (east.min() + east.max()) / 2
    square = _FLATTENING * (2 - _FLATTENING)
    curved = 1 - square * sin(middle) ** 2
    meridian, normal = _EQUATOR * (1 - square) / curved**1.5, _EQUATOR / sqrt(curved)
    x = normal * cos(middle) * np.radians(east)
    y = meridian * (np.radians(latitudes) - middle)
    parallels = np.cos(np.radians([latitudes.min(), latitudes.max()])) / cos(middle)
    return x, y, float(np.abs(1 - parallels).max())


def _projected(latitudes: Array, longitudes: Array, path: Path) -> tuple[Array, Array]:
    """Return projected places, m, and remark on the projection.

    Raises:
        DataError: the latitudes differ too much for one plane.
    """
    x, y, error = project(latitudes, longitudes)
    if not error <= _DISTORTED:
        text = f"{path} has latitudes of {latitudes.min():g} to {latitudes.max():g} degrees, and"
        text = f"{text} no plane keeps distances there; give x and y of a map, in m"
        raise DataError("path", text)
    text = f"{printable(path.name)}: latitude and longitude are projected to metres"
    remark(f"{text} around their middle (distances are true to {max(100 * error, 0.01):.2g} %)")
    return x, y


class PositionTraces(Moving):
    """Nodes move from one recorded position to the next, in a straight line at constant speed.

    A node rests at its first position until its time, and at its last position after it.
    """

    kind: Literal["positions"] = "positions"
    points: tuple[tuple[int, float, float, float], ...] = Field(
        default=(),
        description="list of [client, time, x, y]: clients counted from 0, times in s, places in m",
    )
    path: Given[Path | None, Path | str | None] = as_written(
        None, "a .csv file with columns client, time, x, y, in place of points"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (not self.points):
            raise failure(("points", "give one of the two: points, or a file by path", None))
        for before, after in pairwise(self.points):
            if after[:2] <= before[:2]:
                text = f"got {list(after[:2])} after {list(before[:2])}; give points by client, and"
                raise failure(("points", f"{text} each client's in the order of time", None))
        if any(point[1] < 0 for point in self.points):
            raise failure(("points", "got a time below 0 s; give times of at least 0 s", None))
        return self

    def follow(self, read: ReadFile) -> Self:
        """Return the block with the positions of its file."""
        if self.path is None:
            return self
        rows = read(read_positions, self.path).tolist()
        return self.model_copy(update={"points": tuple([(int(row[0]), *row[1:]) for row in rows])})

    @property
    def span(self) -> float:
        """The time of the last position, s."""
        return max((point[1] for point in self.points), default=0.0)

    def legs(self, nodes: int, rng: np.random.Generator) -> Sequence[Iterator[MotionLeg]]:
        """See `Moving.legs`."""
        key = "points" if self.path is None else "path"
        by_node: list[list[tuple[float, float, float]]] = [[] for _ in range(nodes)]
        file = None if self.path is None else Path(self.path)
        check_clients({point[0] for point in self.points}, nodes, key, file)
        for client, *rest in (point for point in self.points if point[0] < nodes):
            by_node[client].append((rest[0], rest[1], rest[2]))
        if missing := [node for node, points in enumerate(by_node) if not points]:
            raise DataError(key, f"got no position of client {missing[0]}; give one at least")
        return [_straight(points) for points in by_node]


def _straight(points: Sequence[tuple[float, float, float]]) -> Iterator[MotionLeg]:
    """Yield the legs between positions (time, x, y)."""
    time, x, y = points[0]
    if time > 0 or len(points) == 1:
        yield MotionLeg(0.0, time if len(points) > 1 else inf, x, y, 0.0, 0.0)
    for begin, end in pairwise(points):
        span = end[0] - begin[0]
        yield MotionLeg(begin[0], end[0], *begin[1:], *((end[n] - begin[n]) / span for n in (1, 2)))
