"""How far the models of networks are from packets, as `analysis/reality` measured it.

A check of a scenario and a report show a sentence for each. The figures are those of cases that no
model was made with; tests/test_reality.py holds them to ns-3's results in the repository.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Accuracy(NamedTuple):
    """The errors of a model: of the time at which the last of equal messages has arrived.

    Attributes:
        median: of the sizes of relative errors.
        nine: the size that nine of ten cases stay below.
        cases: without random losses, from short single flows to a hundred at once.
        reference: what they were simulated or measured by.
    """

    median: float
    nine: float
    cases: int
    reference: str = "packets of TCP (ns-3"

    def __str__(self) -> str:
        return (
            f"against {self.reference}, {self.cases} cases), the time of messages sent at once"
            f" is off by {self.median:.3g} % in the median, and by less than {self.nine:.3g} % in"
            " nine of ten"
        )


TRANSFERS: Mapping[str, Accuracy] = {
    "fluid": Accuracy(58, 85, 99),
    "lv08": Accuracy(48, 324, 99),
    "tcp": Accuracy(0.00084, 0.49, 99),
}
"""By the model of a network, in percent; `tcp` with `stack: ns-3`."""

LINUX = Accuracy(0.72, 5.8, 60, "sockets of Linux (6.18")
"""Of `tcp` with its default, `stack: linux`."""

ROUNDS: Mapping[str, tuple[float, float]] = {"fluid": (2.3, 8.4), "tcp": (2.4, 9.5)}
"""Of rounds of calibrated fleets, by the model: the median and nine of ten, in percent, in ten
settings of live runs over links that Linux shaped; see `analysis/reality/live_links.py`."""

AIR = {
    "lora": "shares of frames that collide are those of pure ALOHA and of capture within their"
    " confidence intervals; no real gateway was held against it",
    "cell": "equal shares of time are those of the closed form; no real scheduler was held against"
    " them",
    "wifi": "against frames (ns-3, 60 cases), the time of messages sent at once in a cell is off by"
    " 2.1 % in the median, and by less than 8 % in nine of ten",
}
"""The same of air that is shared, by the block of the network."""


def accuracy_of(
    network: Mapping[str, Any], fleet: Sequence[Mapping[str, Any]] = ()
) -> tuple[str, str] | None:
    """Return the model of a network block and how true its times are; None where none is known.

    Args:
        network: the block.
        fleet: the groups; those of a calibrated fleet have intervals of their radios.
    """
    for block, text in AIR.items():
        if network.get(block) is not None:
            return block, text
    model = network["model"]
    if model in ROUNDS and fleet and all(map(_is_calibrated, fleet)):
        median, nine = ROUNDS[model]
        return model, (
            "of fleets that half of a live run had calibrated (Linux's shaped links, 10 settings),"
            f" a round of the other half was predicted to within {median:.2g} % in the median, and"
            f" {nine:.2g} % in nine of ten; other sizes of messages are less sure"
        )
    if model == "tcp" and (network.get("tcp") or {}).get("stack", "linux") == "linux":
        return model, str(LINUX)
    return (model, str(TRANSFERS[model])) if model in TRANSFERS else None


def _is_calibrated(group: Mapping[str, Any]) -> bool:
    return any(key.startswith("radio.") for key in group.get("intervals") or ())
