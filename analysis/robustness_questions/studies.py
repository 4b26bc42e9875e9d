"""Studies: scenarios whose claims in time and energy are tested in many worlds."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from fedsim.addons.robustness.verdicts import COSTS

ALL = ""
"""In the place of a variant: all others."""

Asked = tuple[str, str, str]
"""A variant, its reference, and the cost in which it is cheaper."""


@dataclass(frozen=True)
class Study:
    """A scenario, and claims about it.

    Attributes:
        title: what the page calls it.
        scenario: its file, below scenarios.
        claims: what is said of its variants.
        overrides: what is asked of it, where it is not asked as it stands.
        target: until where; as the scenario stops where not given.
        radio: what its first group is priced on in place of its own radio.
        data: of the catalogue, without which it is not asked.
    """

    title: str
    scenario: str
    claims: tuple[Asked, ...]
    overrides: tuple[str, ...] = ()
    target: str | None = None
    radio: str = ""
    data: str = ""


def _order(*variants: str) -> tuple[Asked, ...]:
    """Return the claims that variants are in this order in every cost, the cheapest first."""
    return tuple((one, other, cost) for one, other in pairwise(variants) for cost in COSTS)


# -- the front page, and the studies -------------------------------------------------------

_CENSORING = (
    "variants={chb: {algorithm: {kind: chb, step_size: 1/L, momentum: 0.4, censor: 0.1}},"
    " gd: {algorithm: {kind: gd, step_size: 1/L}},"
    " lag: {algorithm: {kind: lag, step_size: 1/L, censor: 0.1}}}"
)
_FAST = tuple(f"fleet.{group}.device=cortex-m7" for group in range(2))


def _tails() -> Iterator[Study]:
    claims = tuple(("chb", other, cost) for other in ("base", "gd", "lag") for cost in COSTS)
    for pace, settings in (("slow gradients", ()), ("fast gradients", _FAST)):
        for radio in ("lte", "wifi", "nb-iot"):
            radios = tuple(f"fleet.{group}.radio={radio}" for group in range(2))
            yield Study(
                f"censoring and tails, {radio}, {pace}",
                "studies/censoring-and-tails.yaml",
                claims,
                (_CENSORING, *radios, *settings),
            )


_BEST = {
    "ethernet": ("chb", "chb"),
    "5g-low": ("chb", "chb"),
    "wifi": ("chb", "chb-qsgd-fine"),
    "lte-2020": ("chb", "chb"),
    "lte": ("chb", "chb-qsgd-fine"),
    "umts": ("chb-qsgd-fine", "chb-qsgd-fine"),
    "ble": ("chb-qsgd-fine", "chb-qsgd-fine"),
    "zigbee": ("chb-qsgd-fine", "chb-qsgd-fine"),
    "nb-iot": ("chb-qsgd-fine", "chb-qsgd-fine"),
}
"""The method claimed to take the least time and energy on each radio, except LoRa."""


def _best() -> Iterator[Study]:
    for radio, best in _BEST.items():
        claims = tuple((name, ALL, cost) for name, cost in zip(best, COSTS, strict=True))
        yield Study(f"best by radio, {radio}", "studies/honest-bits.yaml", claims, radio=radio)


STUDIES = (
    Study(
        "front page",
        "censoring.yaml",
        tuple(("chb", other, cost) for other in ("hb", "gd") for cost in COSTS),
    ),
    *_tails(),
    Study(
        "compression and a shared uplink",
        "studies/compression-and-shared-uplink.yaml",
        (
            ("hb-float16", "base", "t"),
            ("chb-float64", "base", "t"),
            ("chb-float16", "chb-float64", "t"),
            ("chb-float16", "hb-float16", "t"),
            ("chb-float16", "hb-float16", "joules"),
        ),
    ),
    Study(
        "honest bits",
        "studies/honest-bits.yaml",
        (
            ("base", "top-k", "t"),
            ("base", "rand-k", "t"),
            ("base", "qsgd", "t"),
            ("qsgd-fine", "base", "t"),
            ("qsgd-fine", "base", "joules"),
            ("chb-qsgd-fine", "chb", "t"),
            ("chb-qsgd-fine", "chb", "joules"),
        ),
    ),
    *_best(),
    Study(
        "a network on MNIST",
        "studies/networks-on-mnist.yaml",
        (
            *(("base", other, cost) for other in ("scaffold", "top-k") for cost in COSTS),
            *_order("8-bit", "base"),
        ),
        target="test_accuracy=0.95",
        data="mnist",
    ),
)
"""Of the front page and of the studies."""


# -- the papers -----------------------------------------------------------------------------

PAPERS = (
    Study(
        "FedDA, sparse regression",
        "papers/fedda-sparse.yaml",
        _order("base", "c-fedda"),
        ("stop.rounds=1200",),
        target="distance=1",
    ),
    Study(
        "FedExProx, mu = 20",
        "papers/further-fedexprox.yaml",
        _order("fedexprox", "base"),
        ("algorithm.step_size=0.0154", "variants={fedexprox: {algorithm: fedexprox}}"),
    ),
    Study(
        "PP-MARINA, one client or sixteen",
        "papers/further-pp-marina.yaml",
        _order("all", "base"),
        ("variants={all: {participation: {count: 16}}}",),
    ),
)
"""Statements of the papers' page on time and energy that no paper makes: those are in claims.md."""
