"""Of which steps censored heavy ball is known to converge on a quadratic.

The method of `fedsim.algorithms.censored` with all M workers is
d^{k+1} = -alpha (g^k - e^k) + beta d^k, where d^k = theta^k - theta^{k-1}, g^k is the gradient of f
and e^k the sum of the innovations that were censored: alpha |e^k| <= sqrt(c) |d^k|, for
c = eps1 alpha^2 M^2. What follows is derived here; that Chen, Blum, Sadler ask for no more by their
conditions (10) to (12) on alpha, beta and eps1 has not been established.

**On a quadratic** of curvatures up to L heavy ball is linear, and alpha e an input that is at most
sqrt(c) times its output d. It converges whatever is censored where sqrt(c) times the gain from one
to the other is below 1 (small gain theorem; Zames, IEEE Trans. Autom. Control 1966). The gain, the
largest |z - 1|/|z^2 - (1 + beta - a) z + beta| over |z| = 1 and 0 < a <= s = alpha L, is

    1/sqrt((1 - beta)^2 - s (1 - sqrt(beta))^2)    for s <= 4 sqrt(beta),
    2/(2 (1 + beta) - s)                           from there up to 2 (1 + beta).

For c = 0 it says alpha < 2 (1 + beta)/L, as Polyak 1964; for beta = 0 alpha < 2 (1 - sqrt(c))/L.

**On any smooth f** with kappa = beta + sqrt(c), V^k = f(theta^k) + kappa/(2 alpha) |d^k|^2 never
grows where alpha <= 2 (1 - kappa)/L, a shorter step, since
V^{k+1} - V^k <= -(1/alpha - L/2) |d^{k+1}|^2 + (kappa/alpha) |d^k| |d^{k+1}|
+ kappa/(2 alpha) (|d^{k+1}|^2 - |d^k|^2). That is no warning's business: the paper's own runs are
longer, and converge.

**Under an asynchronous server** the gradient that it holds of worker m is of a model t_m <= T of
its steps old, so e^k has a second part: the sum over j < T of H_j d^{k-j}, H_j the Hessians of
those m with t_m > j. Where the losses are convex, H_j is at most that of f, and the part at most L
times the sum of T steps: alpha L T times d in the norm of the small gain theorem. The first part is
what is censored. A worker that weighs its innovation against the whole distance between two models
that it received, of s steps of the server, lets pass s times too much: alpha |e^k| <= s sqrt(c) |d|
then, and the errors of eight workers drive the model away where heavy ball converges. Weighed
against the mean step of that distance it stays within sqrt(c) |d|, where a worker's receptions are
as far apart as they were before: its square is at most the mean of s squares (Jensen), and it
stands for s steps. So the method converges where

    (sqrt(c) + alpha L T) gain(alpha L, beta) < 1;

without momentum that is alpha < 2 (1 - sqrt(c))/((1 + 2 T) L), and a single worker whose gradient
is always T steps old diverges from 2 sin(pi/(4 T + 2))/L on, at most pi/2 times that.
"""

from collections.abc import Callable
from math import inf, sqrt

from fedsim.errors import ParameterError

WHERE = "(small gain, derived for conditions like those of Chen, Blum, Sadler)"


_LEAST = 1e-150
"""A step size between this and its inverse has a square that is a float64."""


def area(alpha: float, clients: int, weight: str, remedy: str) -> float:
    """Return alpha^2 M^2, by which the weights of steps of the model are divided.

    Args:
        alpha: the step size.
        clients: M.
        weight: what is divided, in words.
        remedy: what helps beside another step size, in words.

    Raises:
        ParameterError: it is no float64, or its inverse is none.
    """
    scale = alpha * clients
    if _LEAST < scale < 1 / _LEAST:
        return scale**2
    text = (
        f"got {alpha:g}, whose square is no float64, so {weight}/(alpha^2 M^2) is none either;"
        f" {remedy} another step size"
    )
    raise ParameterError("step_size", text)


def gain(s: float, beta: float) -> float:
    """Return by what an error of the gradient is amplified in a step; inf where it diverges.

    Args:
        s: alpha L.
        beta: the momentum, below 1.
    """
    if s <= 4 * sqrt(beta):
        left = (1 - beta) ** 2 - s * (1 - sqrt(beta)) ** 2
        return 1 / sqrt(left) if left > 0 else inf
    return 2 / (2 * (1 + beta) - s) if s < 2 * (1 + beta) else inf


def longest(L: float, beta: float, c: float) -> float:
    """Return the alpha from which on convergence is not known, eps1 going with 1/alpha^2.

    Args:
        L: the smoothness constant of f.
        beta: the momentum, below 1.
        c: of eps1 = c/(alpha^2 M^2), below (1 - beta)^2.
    """
    if not L:
        return inf
    resonant = ((1 - beta) ** 2 - c) / (1 - sqrt(beta)) ** 2
    return (resonant if resonant <= 4 * sqrt(beta) else 2 * (1 + beta - sqrt(c))) / L


def longest_at(L: float, beta: float, threshold: float) -> float:
    """Return the same of an eps1 that is given, as M sqrt(eps1) > 0."""
    from scipy.optimize import brentq  # noqa: PLC0415 - takes 0.2 s

    free = (1 - beta) / threshold

    def left(alpha: float) -> float:
        return 1 / gain(alpha * L, beta) - alpha * threshold

    return free if left(free) >= 0 else float(brentq(left, 0.0, free, rtol=1e-14))


def longest_stale(L: float, beta: float, age: int, threshold: Callable[[float], float]) -> float:
    """Return the alpha from which on convergence is not known under an asynchronous server.

    Args:
        L: the smoothness constant of f.
        beta: the momentum, below 1.
        age: T, of the oldest gradient that the server holds, in its steps; above 0.
        threshold: returns sqrt(c), given alpha.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - takes 0.2 s

    if not L:
        return inf

    def left(alpha: float) -> float:
        return 1 / gain(alpha * L, beta) - threshold(alpha) - alpha * L * age

    return 0.0 if left(0.0) <= 0 else float(brentq(left, 0.0, 2 * (1 + beta) / L, rtol=1e-14))


def largest(beta: float) -> float:
    """Return a c that leaves three quarters of (1 - beta)^2 to the step."""
    return ((1 - beta) / 2) ** 2
