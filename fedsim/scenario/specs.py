"""The keys of a scenario: what the user writes, as frozen specs with all defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    BaseModel,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.algorithms.tiers import AnyOuter
from fedsim.core.blocks.choice import OneOf, block_of, failure
from fedsim.core.blocks.presets import fault_of_interval
from fedsim.core.blocks.spec import Block, Given, Keys, Spec, as_written
from fedsim.core.blocks.wording import show
from fedsim.physics.availability import AnyAvailability
from fedsim.physics.batteries import Battery
from fedsim.physics.carbon import AnyCarbon
from fedsim.physics.devices import AnyDevice
from fedsim.physics.infrastructure import AnyInfrastructure
from fedsim.physics.networks import NETWORKS, Network, ServerLink
from fedsim.physics.radios import AnyRadio
from fedsim.problems import (
    LOSSES,
    MEASURES,
    PENALTIES,
    SOURCES,
    SPLITS,
    STARTS,
    HeldOut,
    HeldOutClients,
    Loss,
    Measure,
    Penalty,
    ProgramLoss,
    Source,
    Split,
    Start,
    Weighting,
    usual_weighting,
)
from fedsim.protocol.aggregation import AnyAggregation, Mean
from fedsim.protocol.attacks import AnyAttack
from fedsim.protocol.participation import AnyParticipation
from fedsim.protocol.privacy import AnyPrivacy
from fedsim.protocol.secrecy import AnySecrecy
from fedsim.protocol.silence import AnySilence
from fedsim.protocol.stopping import Counting, Observe, Stop
from fedsim.scenario.merging import STAR
from fedsim.wire import COMPRESSORS, Compressor, Feedback, ValueFormat

# The fleet: groups of clients with one device and one radio.


FROM_DATA = 0
"""The count of a group that takes all clients of the data, before the data is read."""


def _read_count(value: object, read: ValidatorFunctionWrapHandler) -> int:
    if value == "data":
        return FROM_DATA
    count: int = read(value)
    return count


def _write_count(count: int) -> int | str:
    return count or "data"


Count = Annotated[
    int,
    Field(ge=1),
    WrapValidator(_read_count),
    PlainSerializer(_write_count),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "data"}]}),
]
"""The number of clients of a group."""


class Group(Spec):
    """Clients that have the same device, radio, battery, availability and electricity."""

    count: Count = Field(
        default=1,
        description="number of clients; data: as many as the data has, minus those of other groups",
    )
    device: AnyDevice = as_written("ideal", "a preset, or a block that starts from one")
    radio: AnyRadio = as_written("ideal", "a preset, or a block that starts from one")
    battery: Given[Battery | None, Battery | Keys | None] = as_written(
        None, "their battery; {}: with the device's capacity; null: none"
    )
    availability: AnyAvailability = as_written({"kind": "always"}, "when they are online")
    carbon: AnyCarbon = as_written(
        None, "emissions of their electricity: a country, or a block; null: not counted"
    )
    attack: AnyAttack = as_written(
        None, "attack: what they send instead of the method's messages; null: they are honest"
    )
    intervals: Mapping[str, str] = as_written(
        {},
        (
            "90 % intervals of their constants, which `fedsim robust` samples in place of"
            ' those of presets: {radio.up: "4 Mbit/s..6 Mbit/s"}'
        ),
    )

    @model_serializer(mode="wrap")
    def _without_empty_intervals(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit empty intervals, so that files and fingerprints of older scenarios stay the same."""
        written: dict[str, object] = write(self)
        if not self.intervals:
            written.pop("intervals", None)
        if self.attack is None:
            written.pop("attack", None)
        return written

    @model_validator(mode="after")
    def _intervals_of_figures(self) -> Self:
        faults = []
        for key, text in self.intervals.items():
            name, _, field = key.partition(".")
            block = getattr(self, name) if name in ("device", "radio", "carbon") else None
            if reason := fault_of_interval(block, field, text):
                faults.append((f"intervals.{key}", reason, text))
        if faults:
            raise failure(*faults)
        return self

    @property
    def capacity(self) -> float:
        """The energy in a full battery, J; infinite for clients on mains power."""
        if self.battery is None:
            return float("inf")
        return self.battery.holds(self.device.battery)

    @property
    def loses(self) -> bool:
        """Whether a message of these clients, or to them, may be lost for good."""
        return self.radio.loss.mean > 0 and self.radio.most_tries is not None

    @property
    def missing(self) -> str:
        """Why a message to or from these clients may be lost, with the key; empty if it cannot."""
        if self.loses:
            return "may be lost for good (radio.tries)"
        if self.battery is not None:
            return "may be broken off when its battery runs empty (battery)"
        return "" if self.availability.always else "may be broken off when it leaves (availability)"

    @model_validator(mode="after")
    def _battery_fits(self) -> Self:
        if self.battery is not None and isinf(self.capacity):
            kind = self.device.kind
            text = f'missing: the device {kind} is on mains; say what it holds, such as "15 Wh"'
            raise failure(("battery.capacity", text, self.battery.capacity))
        return self


# The observer's settings: measures, and rows to test on.


@dataclass(frozen=True)
class OneTest(OneOf):
    """An annotation for pydantic: a source of test rows, or a share or clients to hold out."""

    def takes(self, value: object) -> bool:
        """Return whether a value is an instance already, as a caller in Python may pass it."""
        return isinstance(value, HeldOut | HeldOutClients) or super().takes(value)

    def validate(self, value: object, info: ValidationInfo) -> object:
        """Return the instance that a block describes; without a kind, it is a part of the data."""
        if not isinstance(value, Mapping) or "kind" in value:
            return super().validate(value, info)
        if "clients" in value:
            return block_of(HeldOutClients, value, info)
        if "fraction" not in value:
            text = (
                f"got {show(value)} without fraction, clients or kind; give {{fraction: 0.2}}, the"
                " share of the rows to hold out, {clients: 50}, whole clients, or a source of its"
                " own, as for data"
            )
            raise failure(("", text, value))
        return block_of(HeldOut, value, info)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the alternatives, for editors."""
        sources = super().__get_pydantic_json_schema__(schema, handler)["anyOf"]
        parts = [
            model.__get_pydantic_json_schema__(model.__pydantic_core_schema__, handler)
            for model in (HeldOut, HeldOutClients)
        ]
        return {"anyOf": [*parts, *sources]}


AnyMeasures = Given[tuple[Annotated[Measure, OneOf(MEASURES)], ...], Sequence[Measure | Block]]
"""A field that takes measures."""

AnyTest = Given[
    Annotated[HeldOut | HeldOutClients | Source, OneTest(SOURCES)] | None,
    HeldOut | HeldOutClients | Source | Block | None,
]
"""A field that takes test data, or none."""


class ProblemSpec(Spec):
    """What is minimised: a loss on data that is split over the clients, and a penalty."""

    loss: Given[Annotated[Loss, OneOf(LOSSES)], Loss | Block] = Field(
        description="the clients' loss"
    )
    penalty: Given[Annotated[Penalty, OneOf(PENALTIES)], Penalty | Block] = as_written(
        {"kind": "none"},
        "a term h of the objective, added once to the losses; for proximal methods",
    )
    data: Given[Annotated[Source, OneOf(SOURCES)] | None, Source | Block | None] = as_written(
        None, "the source of the samples; omitted if clients have their own programs"
    )
    split: Given[Annotated[Split, OneOf(SPLITS)], Split | Block] = as_written(
        {"kind": "contiguous"}, "the partition of the samples among clients"
    )
    weights: Weighting | None = Field(
        default=None,
        description="the clients' weights w_m in the objective F = sum_m w_m f_m that every method "
        "minimises: rows, their shares n_m/n of all rows; equal, 1/M; or sum, 1. By default F is "
        "the loss of all rows pooled at one place: rows where loss.scale is mean or mean-square, "
        "sum where it is sum or share",
    )
    start: Given[Annotated[Start, OneOf(STARTS)], Start | Block] = as_written(
        {"kind": "own"}, "the initial model"
    )
    optimum: Literal["computed", "unknown"] = Field(
        default="computed",
        description=(
            "the smallest objective, from which gaps are measured: computed before the run,"
            " or left unknown if that takes too long"
        ),
    )
    test: AnyTest = as_written(None, "test rows: a share of the data, or a separate source")

    @property
    def weighting(self) -> Weighting:
        """The rule for the clients' weights: the scenario's, or by default that of the loss."""
        return self.weights or usual_weighting(self.loss)

    @field_validator("data")
    @classmethod
    def _held_by_somebody(cls, data: Source | None, info: ValidationInfo) -> Source | None:
        """Check that the scenario has data, unless the clients' programs have their own."""
        # An invalid loss is missing here, and only its own fault is reported.
        loss = info.data.get("loss")
        if data is None and isinstance(loss, Loss) and not isinstance(loss, ProgramLoss):
            text = "missing, and has no default (where the samples are from)"
            raise PydanticCustomError("stated", "{text}", {"text": text})
        return data

    @model_validator(mode="after")
    def _left_to_programs(self) -> Self:
        """Check that the scenario has no keys for data if the clients' programs have the data."""
        if isinstance(self.loss, ProgramLoss):
            # Defaults do no harm even if they are written, nor do kinds that stand for nothing.
            faults = [
                (key, f"the clients of {self.loss.kind} have data of their own; leave it out", seen)
                for key in ("data", "split", "penalty", "test", "weights")
                if key in self.model_fields_set
                and (seen := getattr(self, key)) != type(self).model_fields[key].default
                and getattr(seen, "kind", "") not in ("none", "contiguous")
            ]
            if faults:
                raise failure(*faults)
        return self

    @model_validator(mode="after")
    def _prepared_alike(self) -> Self:
        if isinstance(self.test, Source) and self.test.preprocess:
            text = (
                "the test rows go through data.preprocess, which is fitted on the training rows;"
                " leave this one out"
            )
            raise failure(("test.preprocess", text, self.test.preprocess))
        return self


class Compression(Spec):
    """How a vector is compressed before it is encoded."""

    compressor: Given[Annotated[Compressor, OneOf(COMPRESSORS)], Compressor | Block] = as_written(
        {"kind": "identity"}, "the compressor of vectors"
    )
    error_feedback: Feedback = Field(
        default="none",
        description=(
            "the sender's memory of compression errors: none; ef, their sum; or ef21, a copy"
            " of the receiver's vector, to which only the difference is sent"
        ),
    )
    by_layer: bool = Field(
        default=False,
        description=(
            "whether each layer of the model is compressed separately, with its own scale"
            " or share; the layers of a network are its parameters, other models have one"
        ),
    )
    if_longer: Literal["plain", "compressed"] = Field(
        default="plain",
        description=(
            "what is sent if the compressor could lengthen a vector: plain, the full vector,"
            " which is exact; or compressed, the compressed vector anyway"
        ),
    )


class Wire(Spec):
    """How vectors are encoded on both links; the receiver gets what the encoding can represent."""

    values: Given[ValueFormat, ValueFormat | str] = as_written(
        ValueFormat.FLOAT32, "number format of all values sent"
    )
    up: Given[Compression, Compression | Keys] = as_written(
        {}, "compression of the clients' vectors"
    )
    down: Given[Compression, Compression | Keys] = as_written(
        {}, "compression of the server's vectors"
    )


class Tier(Group):
    """Gateways that average models: servers of the nodes below, and clients of the server above."""

    rounds: int = Field(
        default=1,
        ge=1,
        description=(
            "kappa2, rounds of a gateway with the nodes below it per round of the server above it"
        ),
    )
    link: Given[ServerLink, ServerLink | Keys] = as_written(
        {}, "the gateway's own link, which all nodes below it share"
    )
    outer: AnyOuter = as_written(
        {"kind": "fedavg"}, "the method of the server above, whose clients are these gateways"
    )
    wire: Given[Wire, Wire | Keys] = as_written(
        {}, "how vectors between gateways and the server above are encoded"
    )
    participation: AnyParticipation = as_written(
        {"kind": "full"}, "client sampling of the server above, among these gateways"
    )


class Models(Spec):
    """Which models a run keeps besides that of its last round."""

    every: int | None = Field(
        default=None, ge=1, description="keep the models of rounds n, 2n, ...; null: only the last"
    )
    best: str | None = Field(
        default=None,
        description=(
            "keep the model with the best value of this figure: objective, gap, or a"
            " measure of the scenario, such as test_accuracy; under a constraint, among"
            " feasible models"
        ),
    )
    clients: bool = Field(
        default=False,
        description=(
            "whether the clients' personal models are stored with each model, for a method"
            " that has them"
        ),
    )

    @model_serializer(mode="wrap")
    def _without_none_best(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit defaults, so that files and fingerprints of older scenarios stay the same."""
        written: dict[str, object] = write(self)
        if self.best is None:
            written.pop("best", None)
        if not self.clients:
            written.pop("clients", None)
        return written

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.every is not None and self.best is not None:
            raise ValueError(f"got every: {self.every} and best: {self.best}; give one of them")
        return self


class ScenarioKeys(Spec):
    """The keys of a scenario, each validated by itself."""

    name: str = Field(default="", description="title; by default the file's name")
    seed: int = Field(default=1, ge=0, description="seed of all random numbers")
    problem: Given[ProblemSpec, ProblemSpec | Keys] = Field(
        description="what is minimised: loss, data and split"
    )
    algorithm: Given[Annotated[Algorithm, OneOf(ALGORITHMS)], Algorithm | Block] = Field(
        description="the method and its parameters"
    )
    wire: Given[Wire, Wire | Keys] = as_written({}, "how vectors are encoded")
    silence: AnySilence = as_written(
        {"kind": "beacon"}, "how the server learns that a client is silent"
    )
    aggregation: AnyAggregation = as_written(
        {"kind": "mean"}, "how the server combines the vectors of its clients"
    )
    secrecy: AnySecrecy = as_written(
        None, "secure aggregation: the server learns sums of its clients' vectors, no single one"
    )
    privacy: AnyPrivacy = as_written(
        None, "clipped replies, noise and an account of epsilon; null: none"
    )
    fleet: Given[tuple[Group, ...], Sequence[Group | Keys]] = as_written(
        (), "the clients; if empty, ideal clients, as many as the split has"
    )
    tiers: Given[tuple[Tier, ...], Sequence[Tier | Keys]] = as_written(
        (), "gateways that average between clients and server, tier by tier from the clients up"
    )
    network: Given[Annotated[Network, OneOf(NETWORKS, default=STAR)], Network | Block] = as_written(
        {}, "the links between clients and server"
    )
    infrastructure: AnyInfrastructure = as_written(
        None, "energy of the server and of the network behind the radios; null: not counted"
    )
    participation: AnyParticipation = as_written(
        {"kind": "full"}, "client sampling: which clients take part in a round"
    )
    stop: Given[Stop, Stop | Keys] = as_written({}, "when the run ends")
    precision: Literal["float64", "float32"] = Field(
        default="float64",
        description=(
            "number type of samples, gradients and objectives; steps, servers and messages"
            " are unaffected"
        ),
    )
    evaluator: Literal["one-by-one", "compiled", "vmap"] | None = Field(
        default=None,
        description=(
            "what computes the clients' work. one-by-one, the reference: NumPy or PyTorch,"
            " sequentially; compiled: Numba kernels, many clients at once, on threads; vmap,"
            " for the loss torch: the steps of many clients as one operation. They differ"
            " in last bits. By default compiled where the run computes much and its loss has"
            " kernels, otherwise one-by-one"
        ),
    )
    measures: AnyMeasures = as_written((), "measures (metrics) to evaluate besides the objective")
    observe: Given[Observe, Observe | Keys] = as_written(
        {}, "rounds in which objective and measures are evaluated"
    )
    counting: Counting = Field(
        default="rounds",
        description=(
            "the model that a round is evaluated with: the one that the server holds when"
            " the round closes; or, with iterates, the one before, as in papers that plot"
            " f(w^k) against the messages of k rounds"
        ),
    )
    models: Given[Models, Models | Keys] = as_written(
        {}, "which models are kept besides the last one"
    )
    variants: Mapping[str, Mapping[str, Any]] = as_written(
        {},
        "name -> the keys that a variant replaces, also as paths such as `fleet.0.radio`; `{}`"
        " names the unchanged scenario, which is called `base` otherwise",
    )
    baseline: str = Field(
        default="",
        description="name of the variant that all others are compared with; by default, tables"
        " compare with the first one, and answers the two cheapest",
    )
    sweep: Mapping[str, Any] | None = as_written(
        {},
        (
            "key -> values: one variant per combination; [1, 2], or {log: [0.01, 1, 5]}; a"
            " variant that sets a key to null is not swept over it"
        ),
    )
    seeds: int = Field(
        default=1, ge=1, description="number of runs per variant, with seed, seed + 1, ..."
    )

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_of_seeds(cls, seeds: object) -> object:
        """Check that seeds are not listed."""
        if isinstance(seeds, list | tuple | str):
            text = f"got {show(seeds)}; give the number of seeds: with 3, the seeds are"
            text += " `seed`, `seed` + 1 and `seed` + 2"
            raise PydanticCustomError("stated", "{text}", {"text": text})
        return seeds

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit these, so that files and fingerprints of older scenarios stay the same."""
        written: dict[str, object] = write(self)
        if not self.tiers:
            written.pop("tiers", None)
        if isinstance(self.aggregation, Mean):
            written.pop("aggregation", None)
        if self.secrecy is None:
            written.pop("secrecy", None)
        else:
            # Late vectors are dropped: a default stays one in the stored file, where "keep" would
            # be refused.
            for key, block in (("participation", self.participation), ("silence", self.silence)):
                if "late" not in block.model_fields_set and isinstance(written.get(key), dict):
                    cast("dict[str, object]", written[key]).pop("late", None)
        if self.privacy is None:
            written.pop("privacy", None)
        if not self.baseline:
            written.pop("baseline", None)
        if self.infrastructure is None:
            written.pop("infrastructure", None)
        return written

    @property
    def clients(self) -> int:
        """The size of the fleet; 0 if it depends on the split, or on data that is not read yet."""
        if any(group.count == FROM_DATA for group in self.fleet):
            return 0
        return sum(group.count for group in self.fleet)


def model_of(fields: Mapping[str, FieldInfo]) -> type[BaseModel]:
    """Return a model that has only some keys of a scenario, and validates them in the same way."""
    parts: dict[str, Any] = {name: (field.annotation, field) for name, field in fields.items()}
    return create_model("SomeKeys", __base__=Spec, **parts)
