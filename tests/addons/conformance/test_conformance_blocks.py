"""Every block passes the checks of its kind; one that breaks a promise, or raises, does not."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan, nan
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import pytest

from fedsim.addons.conformance import (
    check_algorithm,
    check_block,
    check_compressor,
    check_device,
    check_loss,
    check_network_model,
    check_radio,
    check_sending,
    check_split,
    check_stop_rule,
)
from fedsim.addons.conformance.compressors import vectors
from fedsim.addons.conformance.stops import ROUNDS, _answers, _run
from fedsim.addons.conformance.user_blocks import check_blocks
from fedsim.algorithms import Algorithm, GradientDescent
from fedsim.algorithms.censored import Innovation, Iterate
from fedsim.core.blocks.catalogue import AnyRegistry
from fedsim.core.blocks.nature import CONSTANT, Nature
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.ports import Array, Client, Server, Work
from fedsim.physics.devices import DEVICE_KINDS, DEVICES, Device, Phone
from fedsim.physics.infrastructure import Infrastructure
from fedsim.physics.network_models import NETWORK_MODELS, Bearers, NetworkModel, Site
from fedsim.physics.radios import (
    RADIO_KINDS,
    ConstantRate,
    FirstOrderRadio,
    LoRaRadio,
    NarrowbandRadio,
    Radio,
    RadioLaw,
    Rates,
    ShannonRadio,
    StagedRadio,
    Terms,
)
from fedsim.physics.radios.channel import Framing
from fedsim.problems import (
    IID,
    LOSSES,
    SPLITS,
    Bundled,
    ByLabel,
    Clusters,
    Contiguous,
    Dirichlet,
    Groups,
    JaxLoss,
    LabelMix,
    LogNormal,
    LowRankData,
    PlantedDirections,
    PlantedSmoothness,
    Shards,
    ShiftedMean,
    SparseLinear,
    Split,
    Squared,
    Tong,
    TorchLoss,
    Writers,
)
from fedsim.problems.architectures import DenseLayers, LogisticModel
from fedsim.problems.losses import Rows, State
from fedsim.problems.splits.by_partitioner import Partitioned
from fedsim.protocol.stop_rules import STOPS, Patience, RoundCheck, RoundEnd, StopRule
from fedsim.testing import assert_kept
from fedsim.wire import COMPRESSORS, Compressor, Contract, RandK, Sparse, TopK, ValueFormat
from tests.methods import scenario
from tests.problems.examples import CONVEX, NETWORKS
from tests.tiers import every
from tests.wire.compressors import ALL

RADIOS: list[RadioLaw] = [
    *(Radio.model_validate({"kind": name}) for name in Radio.presets),
    Radio.model_validate({"kind": "lte", "up_trace": {"kind": "csv", "path": "any.csv"}}),
    *(LoRaRadio.model_validate({"kind": name}) for name in LoRaRadio.presets),
    *(NarrowbandRadio.model_validate({"kind": name}) for name in NarrowbandRadio.presets),
    *(StagedRadio.model_validate({"kind": name}) for name in StagedRadio.presets),
    StagedRadio.model_validate({"kind": "5g-low-drx", "inactive": "5 s", "resume_time": "0.1 s"}),
    FirstOrderRadio.in_si(up=1e6, down=2e6, distance=50),
    ShannonRadio.in_si(bandwidth=1e7, power=0.2, server_power=20, distance=400, most=4.4),
    ShannonRadio.in_si(bandwidth=1e5, power=0.01, server_power=1, distance=5000, attenuation=0.5),
]
MACHINES = [*(Device.model_validate({"kind": name}) for name in DEVICES), Phone()]
DEALING: list[Split] = [
    Contiguous(),
    Contiguous(clients=7),
    IID(),
    ByLabel(),
    ByLabel(per_client=12),
    Dirichlet(alpha=0.1),
    Dirichlet(alpha=100),
    Clusters(clusters=6, per_client=2),
    Groups(),
    LogNormal(sigma=1.5),
    Shards(),
    Shards(per_client=3),
    LabelMix(alpha=0.3),
    Writers(),
    Writers(rows=2),
]
DRAWING = [
    Bundled(name="wine"),
    PlantedSmoothness(growth=1.3),
    PlantedDirections(clients=4, features=10),
    Tong(clients=5, features=20, informative=5),
    ShiftedMean(clients=4, features=30),
    SparseLinear(clients=3, features=30, ones=5),
    LowRankData(clients=3, shape=(4, 5), rank=2),
]
MODULES = [
    TorchLoss(model=DenseLayers(hidden=(3,)), numbers="float64", l2=0.1),
    TorchLoss(model=LogisticModel(), numbers="float64", scale="sum"),
]
RULES: list[StopRule] = [
    *(each.in_si(**{each.value_key(): 3}) for each in STOPS if each is not Patience),
    Patience(rounds=3, tolerance=0.01, measure="test_accuracy"),
]
MODELS = [model.in_si() for model in NETWORK_MODELS]
MOBILE = Infrastructure.model_validate("mobile")
BLOCKS: list[Spec] = [
    *(*ALL.values(), *CONVEX, *NETWORKS, *MODULES),
    *(*RADIOS, *MACHINES, *DEALING, *DRAWING, *RULES, *MODELS, MOBILE),
]


def named(block: Any) -> str:
    return f"{block.kind}"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(each, marks=pytest.mark.needs("torch")) if each in MODULES else each
        for each in BLOCKS
    ],
    ids=named,
)
def test_every_block_keeps_its_promises(block: Spec) -> None:
    table = check_compressor(block, draws=400) if isinstance(block, Compressor) else None
    assert_kept(check_block(block) if table is None else table)


@every(
    "registry",
    [COMPRESSORS, LOSSES, DEVICE_KINDS, RADIO_KINDS, SPLITS, STOPS, NETWORK_MODELS],
)
def test_none_is_left_out(registry: AnyRegistry) -> None:
    tried = {type(block) for block in BLOCKS}
    # The one holds functions, the other takes an extra: see tests/addons/jax/test_jax.py and
    # tests/problems/test_flwr_datasets.py.
    assert set(registry) - {JaxLoss, Partitioned} <= tried


class Biased(RandK):
    """Forgets to multiply with d/k, and says that it is unbiased all the same."""

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        kept = np.sort(rng.choice(vector.size, self.size(vector.size), replace=False))
        return Sparse.at(kept, vector, form)


class Boasting(TopK):
    """Promises more than the k largest coordinates can give."""

    def contract(self, dimension: int) -> Contract:
        return Contract("contractive", 0.9)


class Unrepeatable(Compressor):
    """Draws from a stream of its own."""

    source: ClassVar[str] = "nobody"
    law: ClassVar[str] = "exact, by its word"
    kind: Literal["unrepeatable"] = "unrepeatable"

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        own = np.random.default_rng()
        return Sparse.at(np.arange(vector.size), vector + own.standard_normal(vector.size), form)

    def contract(self, dimension: int) -> Contract:
        return Contract("exact")


@every(
    ("compressor", "promise"),
    [
        (Biased(fraction=0.3), "the contract holds"),
        (Boasting(fraction=0.3), "the contract holds"),
        (Unrepeatable(), "equal random streams give equal messages"),
        (Unrepeatable(), "the contract holds"),
    ],
)
def test_a_compressor_that_breaks_a_promise_is_found(compressor: Compressor, promise: str) -> None:
    table = check_compressor(compressor, draws=400).set_index("check")
    assert table["outcome"][promise] == "broken"
    assert table["reason"][promise]


class Steep(Squared):
    """Its gradient is twice that of its value."""

    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        return 2 * super().gradient(rows, w, state)


def broken(table: pd.DataFrame) -> dict[str, str]:
    """Return the reasons of the promises that are broken."""
    rows = table[table["outcome"] == "broken"]
    return dict(zip(rows["check"], rows["reason"], strict=True))


def test_a_loss_that_breaks_a_promise_is_found() -> None:
    found = broken(check_loss(Steep(scale="sum")))
    assert "the gradient agrees with finite differences of the value" in found
    assert "the mean over all minibatches is the full gradient" not in found


@pytest.mark.parametrize("seed", range(3))
def test_vectors_of_a_check_are_as_hard_as_their_names_say(seed: int) -> None:
    found = vectors(seed)
    assert set(found["equal magnitudes"]) == {-1.0, 1.0}
    assert np.count_nonzero(found["one coordinate of many"]) == 1
    sizes = np.abs(found["magnitudes of all orders"])
    assert sizes.max() / sizes.min() == pytest.approx(1e12)
    assert set(np.sign(found["magnitudes of all orders"])) == {-1.0, 1.0}
    assert not found["zeros"].any()


class Sized(Squared):
    """Its gradient is another one where so many rows are drawn."""

    wrong: int

    def minibatch_gradient(self, rows: Rows, w: Array, drawn: Any) -> Array:
        share = 2.0 if len(drawn) == self.wrong else 1.0
        return share * super().minibatch_gradient(rows, w, drawn)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_minibatch_gradient_that_is_biased_at_one_size_is_found(size: int) -> None:
    found = broken(check_loss(Sized(scale="sum", wrong=size)))
    assert list(found) == ["the mean over all minibatches is the full gradient"]
    said = f"gradients of {size} of 6 rows have another mean than that of all"
    assert found["the mean over all minibatches is the full gradient"].startswith(said)


class Choosy(Squared):
    """Takes no labels."""

    def encode(self, labels: Any) -> Array:
        raise DataError("loss", "got labels, expected none")


def test_a_loss_that_takes_no_labels_is_named_with_its_last_reason() -> None:
    with pytest.raises(DataError, match=r"squared takes none of .*: .*got labels, expected none"):
        check_loss(Choosy())


class Slow(ConstantRate):
    """Takes twice as long as its rate says."""

    def seconds(self, bits: int, framed: int) -> float:
        return 2 * super().seconds(bits, framed)


class Hasty(ConstantRate):
    """Takes half of the time that its rate needs."""

    constant = None  # type: ignore[assignment]  # as laws have it that are not constant

    def seconds(self, bits: int, framed: int) -> float:
        return super().seconds(bits, framed) / 2


class Moody(ConstantRate):
    """Its carriers draw from a stream of their own, and go faster than the peak."""

    constant = None  # type: ignore[assignment]  # as laws have it that are not constant

    def carrier(self, rng: Callable[[], np.random.Generator]) -> Any:
        return Mood(np.random.default_rng())


class Mood:
    def __init__(self, own: np.random.Generator) -> None:
        self._own = own

    def terms(self, bits: int, framed: int, round_number: int) -> Terms:
        return Terms(1e6 * (1 + self._own.random()), 2.0, -1.0)


class Odd(FirstOrderRadio):
    """A radio with a law that is to be found out."""

    law: type[ConstantRate]

    def rates(self, signals: object) -> Rates:
        return Rates(ConstantRate(self.up), self.law(self.down))


@pytest.mark.parametrize(
    ("law", "promises"),
    [
        (Slow, ["a constant rate holds for every message"]),
        (Hasty, ["the time of a message follows from its bits and rate; more bits take no less"]),
        (
            Moody,
            [
                "no message is faster than the peak, and its airtime is a share of its time",
                "equal random streams give equal terms",
                "it can be sent to another process and back",
            ],
        ),
    ],
)
def test_a_radio_that_breaks_a_promise_is_found(law: type, promises: list[str]) -> None:
    radio = Odd.in_si(up=1e6, down=1e6, distance=50, law=law)
    found = broken(check_radio(radio))
    assert list(found) == promises
    assert all(reason.startswith("down: ") for reason in found.values())


def test_a_radio_that_gains_energy_is_found() -> None:
    free = FirstOrderRadio.in_si(up=1e6, down=1e6, distance=50).model_copy(
        update={"electronics": -1.0}
    )
    assert broken(check_radio(free)) == {
        "energies, powers and delays are finite and at least 0": "`energy_up` is -1"
    }


OF_DRAW = ("energy_up", "energy_down", "base", "send", "receive")
OF_CONNECTION = ("promotion_power", "promotion_time", "tail_power", "tail_time")


@every("value", [-1.0, inf])
@every("key", [*OF_DRAW, *OF_CONNECTION])
def test_a_radio_of_which_any_figure_is_impossible_is_found(key: str, value: float) -> None:
    radio = Radio.model_validate({"kind": "lte"}).model_copy(update={key: value})
    table = check_radio(radio).set_index("check")
    said = table["reason"]["energies, powers and delays are finite and at least 0"]
    assert f"`{key}` is {value:g}" in said


class Tiring(Device):
    """A device that takes longer each time, less for more samples, and the more at rest."""

    counted: ClassVar[list[float]] = []

    def seconds(self, operations: float, samples: float) -> float:
        self.counted.append(operations)
        return len(self.counted) - 1e6 * samples

    def working(self) -> float:
        return self.idle - 1.0 if self.counted else self.idle


def test_a_device_that_breaks_a_promise_is_found() -> None:
    found = broken(check_device(Tiring.model_validate("pi-4")))
    assert list(found) == [
        "times of tasks are finite, and a larger task takes no less",
        "the same task takes the same time again",
        "a constant speed holds for every task",
        "powers are finite and at least 0, and work draws no less than idling",
    ]
    assert "0 operations on 1 samples take -999998 s" in found[next(iter(found))]


class Early(Device):
    """A device that is ready half a second before it begins."""

    def seconds(self, operations: float, samples: float) -> float:
        return super().seconds(operations, samples) - 0.5


def test_a_device_that_is_ready_before_it_begins_is_found() -> None:
    found = broken(check_device(Early.model_validate("pi-4")))
    wanted = "0 operations on 0 samples take -0.5 s"
    assert found["times of tasks are finite, and a larger task takes no less"] == wanted


class Largest(Device):
    """A device whose power at work is the largest of all worlds."""

    def working(self) -> float:
        return float(np.max(super().working()))


def test_a_device_that_takes_an_array_for_one_number_is_found() -> None:
    found = broken(check_device(Largest.model_validate("pi-4")))
    assert list(found) == [
        "with arrays over worlds in place of constants, its figures are those of each world"
    ]
    assert "an array for `" in (reason := found[next(iter(found))])
    assert "gives other figures at" in reason


class Courier(NetworkModel):
    """Carries each message alone, with one fault."""

    kind: Literal["courier"] = "courier"
    fault: str

    @property
    def nature(self) -> Nature:
        return CONSTANT

    def delay(self, latency: float) -> float:
        return {"early": -latency, "contrary": 1 - latency}.get(self.fault, latency)

    def framing(self, own: Framing) -> Framing:
        return Shrinking(own.overhead, own.packet) if self.fault == "shrinking" else own

    def bearers(self, site: Site) -> Bearers:
        rng = np.random.default_rng() if self.fault == "drawing" else site.rng("courier")
        lanes = [Handed(self.fault, site, rng, []) for _ in range(site.clients)]
        return lanes[1:] if self.fault == "missing" else lanes, lanes


class Shrinking(Framing):
    """Takes a bit away."""

    def bits(self, message: int) -> int:
        return -1


@dataclass
class Handed:
    """A lane whose messages take as long as their bits at the rate of the radio, but for a fault.

    Attributes:
        under_way: the messages of this lane, each once it has begun.
    """

    fault: str
    site: Site
    rng: np.random.Generator
    under_way: list[float]
    open: bool = True

    def start(self, bits: float, cap: float, finished: Callable[[Any], None], token: Any) -> Any:
        clock, taken = self.site.calendar, bits / cap
        begin = clock.now
        taken *= 2 - self.rng.random() if self.fault == "drawing" else 1
        taken *= {"hasty": 0.5, "shut": 2}.get(self.fault, 1)
        taken += 1 / bits if self.fault == "small last" else 0
        taken += 1 if self.fault == "aging" and begin > 100 else 0
        if self.fault == "sharing":
            BEGUN.setdefault(clock, []).append(begin)
            taken *= BEGUN[clock].count(begin)
        self.open = self.fault not in {"drawing", "small last", "aging", "sharing"}
        ends = [clock.at(begin + taken, finished, token) for _ in range(self._times)]
        return HandedOver(self.fault, begin, bits, cap, ends)

    @property
    def _times(self) -> int:
        return {"lost": 0, "twice": 2}.get(self.fault, 1)


BEGUN: WeakKeyDictionary[object, list[float]] = WeakKeyDictionary()


@dataclass
class HandedOver:
    """A message of such a lane."""

    fault: str
    begin: float
    bits: float
    cap: float
    ends: list[Any]

    def passed(self, now: float) -> float:
        return -1.0 if self.fault == "backwards" else min(self.bits, (now - self.begin) * self.cap)

    def stop(self) -> None:
        for each in [] if self.fault == "deaf" else self.ends:
            each.cancel()


ENDS, SAME_LATER = (
    "every message ends once, and no sooner than its radio allows",
    "times are the same later unless `nature` says otherwise",
)
DELAYS = "framing only adds bits, and delays are finite and at least 0"
BESIDE = "times depend on the other messages only if `shares` says so"


@every(
    ("fault", "promise", "reason"),
    [
        ("early", DELAYS, "after a latency of 0.001 s the delay is -0.001 s"),
        ("contrary", DELAYS, "a latency of 0.001 s delays by 0.999 s, and one of 0 s by 1"),
        ("shrinking", DELAYS, "8 bits become 7"),
        ("missing", "every client has a bearer up and one down", "2 bearers up for 3 clients"),
        ("lost", ENDS, "12000 bits from client 0 at 0 s end 0 times within 1e+07 s"),
        ("twice", ENDS, "12000 bits from client 0 at 0 s end 2 times within 1e+07 s"),
        ("hasty", ENDS, "take 0.006 s, and 0.012 s at the rate of the radio"),
        ("shut", ENDS, "take 0.024 s; a bearer that is `open` takes 0.012 s"),
        ("small last", "more bits take no less", "1000 bits take 0.002 s, and 8 bits 0.125008 s"),
        ("backwards", "what has passed only grows, up to the bits of the message", "later -1"),
        ("deaf", "a cancelled message does not end, and the next one does", "at 0.2 s, though"),
        ("drawing", "equal random streams give equal times", "from the streams of the site alone"),
        ("sharing", BESIDE, "say Nature(shares=...)"),
        ("aging", SAME_LATER, "12000 bits take 0.012 s at first, and 1.012 s after 1000 s"),
    ],
)
def test_a_network_model_that_breaks_a_promise_is_found(
    fault: str, promise: str, reason: str
) -> None:
    assert_kept(check_network_model(Courier(fault="")))
    assert reason in broken(check_network_model(Courier(fault=fault)))[promise]


class Twice(IID):
    """Gives the first row of each client to the next one as well."""

    def assign(self, samples: Any, clients: int | None, rng: np.random.Generator) -> Any:
        rows = super().assign(samples, clients, rng)
        return tuple(np.append(own, rows[m - 1][0]) for m, own in enumerate(rows))


class Forgetful(Contiguous):
    """Leaves one client out, and the others with what it likes."""

    def assign(self, samples: Any, clients: int | None, rng: np.random.Generator) -> Any:
        return super().assign(samples, clients, np.random.default_rng())[1:]


def test_a_split_that_breaks_a_promise_is_found() -> None:
    found = broken(check_split(Twice()))
    assert list(found) == ["no row is given to two clients, or twice"]
    said = re.fullmatch(
        r"row \d+ is given to clients (\d+), (\d+)",
        found["no row is given to two clients, or twice"],
    )
    assert said is not None
    assert int(said[2]) - int(said[1]) in {1, 4}  # of five clients
    assert list(broken(check_split(Forgetful()))) == ["the number of clients is the one asked for"]


ALONE, COSTS = (
    "a run ends independently of other runs",
    "without `physical`, time and energy do not decide",
)


class Remembering(StopRule):
    """Counts rounds in a list that all its runs share, where one block is to serve many."""

    physical: ClassVar[bool] = False
    kind: Literal["remembering"] = "remembering"
    seen: ClassVar[list[int]] = []

    def watch(self) -> RoundCheck:
        def check(end: RoundEnd) -> str:
            self.seen.append(end.round)
            return "enough" if len(self.seen) % 36 == 0 else ""

        return check


class Dear(StopRule):
    """Ends by time and by a measure, and owns to neither."""

    physical: ClassVar[bool] = False
    kind: Literal["dear"] = "dear"

    def watch(self) -> RoundCheck:
        return lambda end: "dear" if end.t > 9 or end.figures.get("rank") == 3 else ""


class Frugal(StopRule):
    """Ends at a budget of energy, and does not name it as a cost."""

    physical: ClassVar[bool] = False
    kind: Literal["frugal"] = "frugal"

    def watch(self) -> RoundCheck:
        return lambda end: "spent" if end.joules > 1e6 else ""


class Measuring(StopRule):
    """Takes a measure of its own for what `check_stop_rule` says that it is: the objective."""

    physical: ClassVar[bool] = False
    kind: Literal["measuring"] = "measuring"
    columns: ClassVar[tuple[str, ...]] = ("rank",)

    def watch(self) -> RoundCheck:
        def check(end: RoundEnd) -> str:
            known = None if isnan(end.objective) else end.objective
            return "another" if end.figures["rank"] != known else ""

        return check


def test_the_columns_of_a_rule_are_as_the_objective_is_or_unknown_with_it() -> None:
    for objective in (lambda number: 1.0 / number, lambda _: nan):
        ends = _run(Measuring(), objective)
        assert _answers(Measuring(), ends) == [""] * ROUNDS
    assert_kept(check_stop_rule(Measuring()))


class Curt(StopRule):
    """Answers by truth values, before anything has begun."""

    kind: Literal["curt"] = "curt"

    @property
    def ends_at(self) -> float:
        return -1.0

    def watch(self) -> RoundCheck:
        return lambda end: end.round == 3  # type: ignore[return-value]  # what is to be found


@every(
    ("rule", "promises"),
    [
        (Remembering(), {ALONE}),
        (Dear(), {"it reads only the columns it declares", COSTS}),
        (Frugal(), {COSTS}),
        (
            Curt(),
            {"a reason is a text", "no moment is before the start, and batteries have a text"},
        ),
    ],
)
def test_a_stop_rule_that_breaks_a_promise_is_found(rule: StopRule, promises: set[str]) -> None:
    found = set(broken(check_stop_rule(rule)))
    # What runs share lets the second of two end elsewhere, whatever it costs.
    assert promises <= found <= promises | {COSTS}


class Giving(Contiguous):
    """Gives the first client other rows than its own."""

    given: Any

    def assign(self, samples: Any, clients: int | None, rng: np.random.Generator) -> Any:
        _, *others = super().assign(samples, clients, rng)
        return self.given, *others


@every(
    ("given", "reason"),
    [
        ([0, 1], "client 0 has [0, 1]; give an array of the numbers of its rows"),
        (np.zeros(2), "client 0 has array([0., 0.]); give an array of the numbers of its rows"),
        (np.arange(0), "client 0 has none"),
        (np.array([-1, 3]), "client 0 has rows -1 to 3, of 0 to 119"),
        (np.array([0, 120]), "client 0 has rows 0 to 120, of 0 to 119"),
    ],
)
def test_rows_that_are_none_of_the_samples_are_found(given: Any, reason: str) -> None:
    found = broken(check_split(Giving(given=given)))
    assert found["every client has at least one row, and rows are numbers"] == reason


class Raising(TopK):
    """Cannot compress zeros."""

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        if not vector.any():
            raise KeyError("nothing")
        return super().compress(vector, rng, form)


class Unready(Squared):
    """Cannot be set up."""

    def dimension(self, features: int, outputs: int) -> int:
        return features // 0


@pytest.mark.parametrize("block", [Raising(count=2), Unready(scale="sum")], ids=["later", "first"])
def test_what_a_block_raises_breaks_the_check_with_the_line(block: Spec) -> None:
    table = check_block(block)
    found = broken(table)
    assert found
    assert all(__file__ in reason for reason in found.values())
    assert all("KeyError: 'nothing'" in r or "ZeroDivisionError" in r for r in found.values())
    if isinstance(block, Raising):
        assert table["outcome"].iloc[-2] == "broken"  # the checks after it are made all the same


class Bound(GradientDescent):
    """Makes its work of a function within a function, and raises once it is late."""

    kind: Literal["bound"] = "bound"  # type: ignore[assignment]

    async def handle(self, client: Client[Any], message: Any) -> Any:
        def twice(loss: Any, w: Array) -> Array:
            return np.asarray(2 * loss.gradient(w))

        if client.round > 6:
            raise LookupError("no more")
        await client.compute(Work(twice, client.id, (message.theta.values,), 1.0))  # noqa: PD011 - a payload's
        return await super().handle(client, message)


def test_a_method_that_cannot_be_sent_elsewhere_is_found() -> None:
    found = broken(check_sending(scenario("gd") | {"algorithm": BOUND}, [Bound]))
    assert list(found) == ["its work can be done by another process"]
    assert "Bound.handle.<locals>.twice" in found["its work can be done by another process"]
    assert not broken(check_sending(scenario("gd")))


BOUND = {"kind": "bound", "step_size": "0.5/L"}


def test_a_method_that_raises_has_failed_with_the_line() -> None:
    table = check_algorithm(scenario("gd") | {"algorithm": BOUND}, [Bound])
    assert table["world"].tolist() == ["no trouble"]
    assert table["outcome"].tolist() == ["failed"]
    assert table["reason"][0].startswith(f"LookupError: {Path(__file__).name}:")
    assert "no more" in table["reason"][0]
    assert __file__ in table["reason"][0]


class CommitsFirst(GradientDescent):
    """Commits the model at which the gradients were taken, and makes its step afterwards."""

    kind: Literal["commits-first"] = "commits-first"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        w, total = server.initial, np.zeros_like(server.initial)
        while True:
            for reply in await server.exchange(Iterate(server.pack(w))):
                total = total + reply.message.delta.values  # noqa: PD011 - a payload's
            server.commit(w)
            w = w - self.alpha * total


@pytest.mark.slow
@pytest.mark.parametrize("counting", ["rounds", "iterates"])
def test_a_method_that_commits_before_its_update_has_failed(counting: str) -> None:
    written = {"counting": counting, "algorithm": {"kind": "commits-first", "step_size": "0.5/L"}}
    table = check_algorithm(scenario("gd") | written, [CommitsFirst]).set_index("world")
    assert table["outcome"]["no trouble"] == "failed"
    assert "server.commit(w) after the update" in table["reason"]["no trouble"]
    late = check_algorithm(scenario("gd") | {"counting": counting}).set_index("world")
    assert late["outcome"]["no trouble"] == "done"


@pytest.mark.slow
def test_a_method_that_stays_at_an_optimum_has_not_failed() -> None:
    """The penalty is so heavy that zero, the start, is the optimum."""
    written = scenario("fedmid")
    heavy = {"penalty": {"kind": "l1", "weight": 10.0}}
    table = check_algorithm(written | {"problem": written["problem"] | heavy}).set_index("world")
    assert table["outcome"]["no trouble"] == "done"
    assert table["first"]["no trouble"] == pytest.approx(np.log(2))


class LocalSteps(Algorithm):
    """Sixty steps of gradient descent by each client: a step that is too large overflows."""

    kind: Literal["local-steps"] = "local-steps"
    source: ClassVar[str] = "this test"
    lr: float = 1e6

    async def serve(self, server: Server) -> None:
        w = server.initial
        while True:
            w = w + server.aggregate(await server.exchange(Iterate(server.pack(w))), "delta") / 5
            server.commit(w)

    async def handle(self, client: Client[Any], message: Iterate) -> Innovation:
        w = start = message.theta.values  # noqa: PD011 - a payload's
        for _ in range(60):
            w = w - self.lr * await client.compute(client.oracle.gradient(w))
        return Innovation(client.pack(w - start))


@pytest.mark.slow
def test_a_default_step_that_diverges_is_replaced_by_a_safe_one_and_that_is_said() -> None:
    (title, table), (what, _) = check_blocks([LocalSteps])
    number = re.match(
        r"LocalSteps \{kind: local-steps, lr: ([0-9.e-]+)\}, since lr: 1000000.0", title
    )
    assert number is not None
    assert title.endswith(", the default, diverges on this problem")
    assert what.endswith(f"lr: {number[1]}}}: what it sends")
    assert set(table["outcome"]) == {"done", "refused"}


@pytest.mark.slow
def test_a_run_that_diverges_breaks_no_promise_but_a_test_refuses_it() -> None:
    written = scenario("gd") | {"algorithm": {"kind": "local-steps"}}
    table = check_algorithm(written, [LocalSteps]).set_index("world")
    assert table["outcome"]["no trouble"] == "diverged"
    assert table["reason"]["no trouble"].startswith("diverged in round 1")
    assert "failed" not in set(table["outcome"])
    with pytest.raises(AssertionError, match="diverged in round 1"):
        assert_kept(table.reset_index())
