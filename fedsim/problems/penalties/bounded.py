"""The prox of a multiple of a norm under a bound: |v - centre| <= radius, in that same norm.

    argmin_v  t |v| + |v - w|^2/2    under    |v - c| <= R.

For c = 0 it is the prox followed by the projection on the ball, since both shrink along the same
directions. Around another centre it is not: the prox makes entries zero, and the bound pulls them
towards c. For the l1 norm it is solved in closed form; sorting finds the multiplier. For other
norms the parts (singular vectors, directions of groups) do not separate if the centre is not
aligned with the model. These are solved by splitting, up to rounding.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.projections import soft_threshold

MEMORY = 12
"""The number of differences of iterates in Anderson's extrapolation."""

GROWTH = 2.0
"""The largest accepted ratio of a residual to the smallest one since the last plain start."""

LEG, LEGS = 40, 50
"""The iterations with one rho, and the largest number of values of rho."""

FACTOR, LEVELS = 30.0, 6
"""The base of the powers tried as rho, and the largest exponent, after which they repeat."""

ROUNDING = 2e-15
"""The residual, relative to the data, that counts as rounding; ten times as much later."""


class Bounded(NamedTuple):
    """A point in a ball, and the cost of finding it.

    Attributes:
        point: the point, in the shape of the input.
        evaluations: the number of proxes and projections; the test of a bound counts as one.
    """

    point: Array
    evaluations: int


def l1_bounded(w: Array, t: float, centre: Array, radius: float) -> Array:
    """Return the minimiser of t |v|_1 + |v - w|^2/2 under |v - centre|_1 <= radius.

    With a multiplier m of the bound, each entry moves towards its centre as m grows, by m. If zero
    lies in between, the entry rests there for a length of 2 t. |v(m) - centre|_1 is piecewise
    linear and decreases. Its breakpoints are sorted, and the piece that contains the radius is
    solved.

    >>> l1_bounded(np.array([4.0, -1.0]), 1.0, np.array([1.0, 2.0]), 3.0)
    array([2., 0.])
    """
    # By symmetry, all entries of the centre can be taken as nonnegative.
    sign = np.where(centre < 0, -1.0, 1.0)
    w, c = sign * w, sign * centre
    above = w - t > c
    # Distances to go: from 0 to `first`, and from `rest` to `last`.
    first = np.where(above, w - t - c, np.maximum(-w - t, 0.0))
    rest = np.where(above, 0.0, np.maximum(t - w, 0.0))
    last = np.where(above, 0.0, c + t - w)
    m = _multiplier(first, rest, last, radius)
    moved = np.where(above, np.maximum(w - t - m, c), np.minimum(soft_threshold(w + m, t), c))
    return np.asarray(sign * moved)


def _multiplier(first: Array, rest: Array, last: Array, radius: float) -> float:
    """Return the m >= 0 at which the remaining distances add up to the radius."""
    ends, starts = first[first > 0], rest[last > rest]
    stops = last[last > rest]
    at = np.concatenate([ends, starts, stops])
    change = np.concatenate([np.ones(ends.size), -np.ones(starts.size), np.ones(stops.size)])
    order = np.argsort(at, kind="stable")
    at, slopes = at[order], np.cumsum(change[order]) - ends.size
    # The remaining distance at each breakpoint, summed from the end, where it is 0.
    left = np.cumsum((np.diff(at) * -slopes[:-1])[::-1])[::-1]
    left = np.append(left, 0.0)
    k = int(np.flatnonzero(left <= radius)[0])
    before = -float(slopes[k - 1]) if k else float(ends.size)
    return float(at[k]) - (radius - float(left[k])) / before


def solve_bounded(
    prox: Callable[[Array, float], Array],
    project: Callable[[Array], Array],
    w: Array,
    centre: Array,
) -> Bounded:
    """Return the minimiser of h(v) + |v - w|^2/2 over all v for which v - centre is in a ball.

    By Douglas-Rachford splitting between the objective and the ball, which converges for every rho
    > 0. rho = 1 is fast if the kinks of h and of the bound are far from each other. In between,
    larger values of rho escape from points where two kinks nearly meet. Source: Lions, Mercier,
    SIAM J. Numer. Anal. 1979.

    Args:
        prox: the prox of h, scaled by its second argument.
        project: returns the nearest point of the ball around zero.
        w: a point of any shape.
        centre: the centre, in the shape of `w`.
    """
    search = _SplittingSearch(prox, project, w, centre)
    for leg in range(LEGS):
        search.go(FACTOR ** (1 + leg // 2 % LEVELS) if leg % 2 else 1.0)
        if search.over:
            break
    return Bounded(search.point, 2 * search.used)


class _SplittingSearch:
    """Douglas-Rachford iterations with several values of rho.

    Attributes:
        x: the last minimiser of the objective, in the shape of w.
        dual: a subgradient of the objective there.
        point: the point of the ball with the smallest residual so far.
        residual: the residual of that point: its distance from x, relative to the data.
        used: the number of iterations.
    """

    def __init__(
        self,
        prox: Callable[[Array, float], Array],
        project: Callable[[Array], Array],
        w: Array,
        centre: Array,
    ) -> None:
        self.prox, self.project, self.w, self.centre = prox, project, w, centre
        self.scale = max(float(np.abs(w).max()), float(np.abs(centre).max()))
        self.x = self.point = centre
        self.dual = np.zeros_like(w)
        self.residual, self.used = np.inf, 0

    @property
    def over(self) -> bool:
        """Whether the remaining residual is rounding."""
        late = self.used >= 4 * LEG
        return self.residual <= (10 * ROUNDING if late else ROUNDING)

    def go(self, rho: float) -> None:
        """Iterate with one rho, from the end of the previous iterations."""
        t, path = self.x + self.dual / rho, _Path()
        for _ in range(LEG):
            self.x = self.prox((self.w + rho * t) / (1 + rho), 1 / (1 + rho))
            self.dual = rho * (t - self.x)
            inside = self.centre + self.project(2 * self.x - t - self.centre)
            step = inside - self.x
            length = float(np.abs(step).max())
            self.used += 1
            if rho == 1 and length < self.residual * self.scale:
                self.residual, self.point = length / self.scale, inside
                if self.over:
                    return
            t = path.next(t, step, length)


class _Path:
    """Iterates of a nonexpansive step, with Anderson's extrapolation.

    Anderson, J. ACM 1965; Walker, Ni, SIAM J. Numer. Anal. 2011. An extrapolation to a point with a
    much longer step is replaced by the plain step.
    """

    def __init__(self) -> None:
        self.past: list[tuple[Array, Array]] = []
        self.least, self.plain = np.inf, np.zeros(())

    def next(self, t: Array, step: Array, length: float) -> Array:
        """Return the next iterate after t, where the plain step has a given length."""
        if length > GROWTH * self.least:
            self.least, self.past = np.inf, []
            return self.plain
        self.least, self.plain = min(self.least, length), t + step
        self.past = [*self.past[-MEMORY:], (step, self.plain)]
        return _extrapolate(self.past)


def _extrapolate(past: list[tuple[Array, Array]]) -> Array:
    """Return Anderson's next iterate from past steps and their results, newest last."""
    step, led = past[-1]
    if len(past) == 1:
        return led
    steps = np.stack([(step - other).ravel() for other, _ in past[:-1]], axis=1)
    leads = np.stack([(led - other).ravel() for _, other in past[:-1]], axis=1)
    weights = np.linalg.lstsq(steps, step.ravel(), rcond=1e-12)[0]
    return np.asarray(led - (leads @ weights).reshape(led.shape))
