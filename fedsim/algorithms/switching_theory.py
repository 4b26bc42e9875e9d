"""The step size and the tolerance of FedSGM's theorem, and what is beyond it.

Upadhyay, Moon, Hashemi 2025 (`fedsim.algorithms.switching`), theorem 1: with D = |w_1 - w*|, G a
bound on all gradients, T rounds of E local steps, n clients and an unbiased compressor with
E|C(v) - v|^2 <= q |v|^2,

    Gamma = 2 E^2 + E q/(2n),    eta = sqrt(D^2/(2 G^2 E T Gamma)),
    eps = sqrt(2 D^2 G^2 Gamma/(E T)), twice that for soft switching, with beta = 2/eps.

The mean of the models of the near-feasible rounds then has f - f* <= eps and g <= eps.

Without compression, q = 0, smaller constants do, derived here: Gamma = E/2, so that eps = D G/
sqrt(T) for any E. Let h_j be f_j in a round that steps on f, and g_j in one that steps on g. A
client's k-th step starts at v_k, |v_k - w_t| <= eta k G, so h_j(v_k) >= h_j(w_t) - eta k G^2, and

    |v_{k+1} - w*|^2 <= |v_k - w*|^2 - 2 eta (h_j(v_k) - h_j(w*)) + eta^2 G^2.

E of them add up to 2 eta E (h_j(w_t) - h_j(w*)) <= |w_t - w*|^2 - |v_E - w*|^2 + eta^2 G^2 E^2; the
mean over clients has |w_{t+1} - w*|^2 <= mean_j |v_E - w*|^2, as the square is convex; and the mean
over T rounds is at most D^2/(2 eta E T) + eta G^2 E/2, which is least, and eps, at this eta. With
soft switching a round has (1 - s) (f - f*) + s g in place of h, and s > 0 only where g > eps/2, so
that twice the tolerance does, as in the theorem.
"""

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

from pydantic import Field

from fedsim.algorithms.base import Concern, ProblemInfo
from fedsim.algorithms.remedies import at_least, at_most, concern
from fedsim.blocks.spec import Spec

WHERE = "(Upadhyay, Moon, Hashemi 2025, theorem 1)"

_EXCESS = 1 + 1e-9


class Constants(NamedTuple):
    """What the theorem takes.

    Attributes:
        step_size: eta.
        tolerance: eps.
    """

    step_size: float
    tolerance: float


class Theorem(Spec):
    """What the theorem asks of the problem, which nobody but its user can know."""

    diameter: float = Field(gt=0, description="D, how far the start is from the optimum")
    lipschitz: float = Field(gt=0, description="G, what no gradient is longer than")
    rounds: int = Field(ge=1, description="T, rounds until the mean is taken")

    def constants(self, steps: int, q: float, clients: int, *, soft: bool) -> Constants:
        """Return eta and eps; q = 0 is no compression.

        >>> Theorem(diameter=2.0, lipschitz=3.0, rounds=64).constants(1, 0.0, 10, soft=False)
        Constants(step_size=0.08333333333333333, tolerance=0.75)
        """
        gamma = 2 * steps**2 + steps * q / (2 * clients) if q else steps / 2
        eta = self.diameter / (self.lipschitz * sqrt(2 * steps * self.rounds * gamma))
        eps = self.diameter * self.lipschitz * sqrt(2 * gamma / (steps * self.rounds))
        return Constants(eta, 2 * eps if soft else eps)


def concerns(taken: Constants, allowed: Constants) -> Iterator[Concern]:
    """Yield where the step is longer, or the tolerance less, than the theorem's."""
    if taken.step_size > allowed.step_size * _EXCESS:
        text = (
            f"got {taken.step_size:.4g}, but the theory's step is {allowed.step_size:.4g} {WHERE}"
        )
        yield concern("step_size", text, at_most(allowed.step_size))
    if taken.tolerance * _EXCESS < allowed.tolerance:
        text = (
            f"got {taken.tolerance:.4g}, but the theory promises no less than"
            f" {allowed.tolerance:.4g} in so many rounds {WHERE}"
        )
        yield concern("tolerance", text, at_least(allowed.tolerance))


def beyond(info: ProblemInfo) -> Iterator[Concern]:
    """Yield what the theorem does not speak of."""
    if info.uplink.kind not in ("exact", "unbiased"):
        text = f"the compressor on the uplink is {info.uplink.kind}, and not unbiased"
        yield Concern("kind", f"{text}: beyond the theory of fedsgm {WHERE}")
    if info.downlink.kind != "exact":
        yield Concern("kind", f"a compressed downlink is beyond the theory of fedsgm {WHERE}")
    if info.asked is not None:
        yield Concern("kind", f"a sample of the clients is beyond the theory of fedsgm {WHERE}")
    largest, equal = float(info.shares.max()), 1 / info.clients
    if largest > equal * _EXCESS:
        text = f"shares of the samples up to {largest:.3g} in place of 1/n = {equal:.3g}"
        yield Concern("kind", f"{text} are beyond the theory of fedsgm {WHERE}")
