"""Policies of one's own take part in what a scenario is refused for: they are asked, not known."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import fedsim
from fedsim.addons.repricing.conditions import refusals
from fedsim.algorithms import FedAvg
from fedsim.algorithms.base import IncrementVariant
from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import Array, Meaning
from fedsim.physics.availability import Availability
from fedsim.protocol.participation import Early, Sample
from fedsim.protocol.silence import SilencePolicy
from fedsim.scenario import Scenario, Variant
from tests.runs import small
from tests.tiers import every


class _Own(Sample):
    """A sample in the order of the clients."""

    count: int | None = 2

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        return range(len(samples))


class Pairs(_Own):
    """So many pairs of clients."""

    kind: Literal["pairs"] = "pairs"
    pairs: int = 1

    @property
    def counts(self) -> dict[str, int]:
        return {"pairs": 2 * self.pairs}


class Everybody(_Own):
    """All of them, one after the other."""

    kind: Literal["everybody"] = "everybody"
    asks_all: ClassVar[bool] = True


class Hasty(_Own):
    """A round that closes after a second for each client that is asked, and is given up after."""

    kind: Literal["hasty"] = "hasty"
    each: float = 1.0
    closes_after: ClassVar[float] = 2.0
    round_timeout: ClassVar[float] = 1.0


class Forgetful(_Own):
    """Who is late is not heard."""

    kind: Literal["forgetful"] = "forgetful"
    keep_late: ClassVar[bool] = False


class Half(_Own):
    """More are asked than are waited for."""

    kind: Literal["half"] = "half"
    quorum: float | None = 0.5
    over_selects: ClassVar[bool] = True


class FirstOne(_Own):
    """A round closes with its first reply, by a rule that has no key."""

    kind: Literal["first-one"] = "first-one"

    def goal(self, cohort: int) -> float:
        return 1


class Called(_Own):
    """The same, by a key."""

    kind: Literal["called"] = "called"
    first: int = 1

    def goal(self, cohort: int) -> float:
        return self.first

    def early(self) -> Iterator[Early]:
        yield Early("first", f"{self.first}", "whoever is first decides")


class Patience(SilencePolicy):
    """Silence is waited for, for as long as the class says."""

    kind: Literal["patience"] = "patience"
    beacon: ClassVar[bool] = False
    closes_after: ClassVar[float] = 3.0


class Nights(Availability):
    """Clients come and go."""

    kind: Literal["nights"] = "nights"


class Days(Availability):
    """Clients are there, whatever is said of it."""

    kind: Literal["days"] = "days"
    always: ClassVar[bool] = True


class Choosy(FedAvg):
    """A method whose clients send models, and could send what adds up."""

    kind: Literal["choosy"] = "choosy"  # type: ignore[assignment]  # another name
    uplink: ClassVar[dict[str, Meaning]] = {"": Meaning.STATE}
    differently: bool = False

    @property
    def up(self) -> dict[str, Meaning]:
        return {"": Meaning.INCREMENT if self.differently else Meaning.STATE}

    def increment_variant(self) -> IncrementVariant:
        other = self.model_copy(update={"differently": True})
        return IncrementVariant("differently: true", other)


BLOCKS: list[type[Spec]] = [
    Pairs, Everybody, Hasty, Forgetful, Half, FirstOne, Called, Patience, Nights, Days, Choosy
]  # fmt: skip


def taking_part(kind: str, **keys: Any) -> dict[str, Any]:
    return {"participation": {"kind": kind} | keys}


def fleet(**keys: Any) -> dict[str, Any]:
    group = {"count": 4, "device": "phone-mid", "radio": "lte"}
    return {"fleet": [group | keys]}


WAITED: dict[str, Any] = {"silence": {"kind": "patience"}}
EF21 = {"compressor": {"kind": "top-k", "fraction": 0.5}, "error_feedback": "ef21"}
MODELS: dict[str, Any] = {"algorithm": {"kind": "choosy", "step_size": 0.1}}
CELL = {"wire": {"down": EF21}, "network": {"broadcast": "cell"}}
EF = {"wire": {"up": EF21 | {"error_feedback": "ef"}}}
PEERS: dict[str, Any] = {
    "algorithm": {"kind": "d-psgd", "step_size": 0.1},
    "network": {"peers": {"kind": "ring"}},
}


@every(
    ("blocks", "key", "said"),
    [
        (fleet() | taking_part("pairs", pairs=3), "participation.pairs", "got 6"),
        (taking_part("hasty"), "participation.give_up", "a deadline without a quorum"),
        (taking_part("hasty") | WAITED, "participation.deadline", "a round has one deadline"),
        (taking_part("hasty") | WAITED, "participation.give_up", "none is abandoned"),
        (taking_part("forgetful") | WAITED, "participation.late", "silence.late decides"),
        (taking_part("forgetful"), "participation.late", "running sum"),
        (taking_part("half"), "participation.quorum", "over above 1"),
        (taking_part("half") | WAITED, "participation.quorum", "a quorum may fail"),
        (taking_part("asynchronous") | WAITED, "silence.kind", 'got "patience"'),
        (taking_part("pairs") | CELL, "wire.down.error_feedback", "hold different vectors"),
        (MODELS | EF, "wire.up.error_feedback", "use error_feedback: ef21 or algorithm.differ"),
        (MODELS | taking_part("asynchronous"), "participation.kind", "differently: true"),
        (PEERS | fleet(availability={"kind": "nights"}), "fleet.0.availability.kind", "nights"),
        (PEERS | taking_part("pairs"), "participation.kind", "no server samples the nodes"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_found(blocks: dict[str, Any], key: str, said: str) -> None:
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.load(small(**blocks), blocks=BLOCKS)
    assert said in {fault.key: fault.message for fault in caught.value.faults}[key]


@every(
    "blocks",
    [
        fleet() | taking_part("pairs", pairs=2),
        taking_part("everybody") | {"wire": {"down": EF21}},
        PEERS | fleet(availability={"kind": "days"}) | taking_part("everybody"),
        MODELS | {"algorithm": MODELS["algorithm"] | {"differently": True}} | EF,
    ],
)
def test_what_goes_together_is_taken(blocks: dict[str, Any]) -> None:
    assert fedsim.load(small(**blocks), blocks=BLOCKS).variants


def priced_again(**blocks: Any) -> dict[str, str]:
    """Return why a log of a scenario would not be priced again, by key."""
    (variant,) = fedsim.load(small(**fleet(), **blocks), blocks=BLOCKS).variants
    assert isinstance(variant, Variant)
    then: Scenario = variant.scenario
    return {fault.key: fault.message for fault in refusals(then, variant, 4, ())}


def test_a_log_is_priced_again_only_where_no_round_closes_early() -> None:
    assert not priced_again(**taking_part("pairs"))
    assert "the first ones" in priced_again(**taking_part("first-one"))["participation.kind"]
    assert priced_again(**taking_part("called")).keys() == {"participation.first"}
    assert priced_again(**WAITED).keys() == {"silence.kind"}
    half = priced_again(**taking_part("half", deadline="3 s", over=1.5))
    assert half.keys() == {"participation.quorum", "participation.deadline", "participation.over"}


@pytest.mark.parametrize(("kind", "refused"), [("nights", True), ("days", False)])
def test_a_log_is_priced_again_only_where_all_are_always_there(kind: str, refused: bool) -> None:
    (variant,) = fedsim.load(small(**fleet(availability={"kind": kind})), blocks=BLOCKS).variants
    found = [fault.key for fault in refusals(variant.scenario, variant, 4, ())]
    assert found == (["fleet.0.availability.kind"] if refused else [])


def test_a_policy_of_fedsim_that_closes_early_says_so() -> None:
    assert Hasty().closes_after < inf
    assert [each.key for each in Hasty().early()] == ["deadline", "give_up"]
