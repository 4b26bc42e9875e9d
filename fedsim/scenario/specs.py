"""The keys of a scenario: what the user writes, as frozen specs with every default in sight."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.given import Block, Given, Keys
from fedsim.blocks.spec import Spec
from fedsim.physics.networks import NETWORKS, Network
from fedsim.problems import (
    LOSSES,
    PENALTIES,
    SOURCES,
    SPLITS,
    STARTS,
    Loss,
    Penalty,
    ProgramLoss,
    Source,
    Split,
    Start,
)
from fedsim.protocol.observing import Observe
from fedsim.protocol.participation import AnyParticipation
from fedsim.protocol.silence import AnySilence
from fedsim.protocol.stopping import Stop
from fedsim.scenario.fleet import Group
from fedsim.scenario.merging import STAR
from fedsim.scenario.observing import AnyMeasures, AnyTest
from fedsim.wire import COMPRESSORS, Compressor, Feedback, ValueFormat


class ProblemSpec(Spec):
    """What is minimised: a loss on data that is split over the clients, and a penalty."""

    loss: Given[Annotated[Loss, OneOf(LOSSES)], Loss | Block] = Field(
        description="the clients' loss"
    )
    penalty: Given[Annotated[Penalty, OneOf(PENALTIES)], Penalty | Block] = as_written(
        {"kind": "none"}, "a term h beside the losses, once; for methods that are proximal"
    )
    data: Given[Annotated[Source, OneOf(SOURCES)] | None, Source | Block | None] = as_written(
        None, "where the samples are from; nothing where clients have programs of their own"
    )
    split: Given[Annotated[Split, OneOf(SPLITS)], Split | Block] = as_written(
        {"kind": "contiguous"}, "which client gets which samples"
    )
    start: Given[Annotated[Start, OneOf(STARTS)], Start | Block] = as_written(
        {"kind": "own"}, "the model that all begin with"
    )
    optimum: Literal["computed", "unknown"] = Field(
        default="computed",
        description="the least objective, which gaps are measured from: computed before the run, "
        "or left unknown where that would take too long",
    )
    test: AnyTest = as_written(
        None, "rows to test on: a share of the data, or a source of their own"
    )

    @field_validator("data")
    @classmethod
    def _held_by_somebody(cls, data: Source | None, info: ValidationInfo) -> Source | None:
        """Check that there is data, unless the clients' programs have it."""
        loss = info.data.get("loss")
        if data is None and isinstance(loss, Loss) and not isinstance(loss, ProgramLoss):
            text = "missing, and has no default (where the samples are from)"
            raise PydanticCustomError("stated", "{text}", {"text": text})
        return data

    @model_validator(mode="after")
    def _left_to_programs(self) -> Self:
        """Check that nothing is said of data that the clients' programs have."""
        if isinstance(self.loss, ProgramLoss):
            wrong = [
                (key, f"the clients of {self.loss.kind} have data of their own; leave it out", seen)
                for key in ("data", "split", "penalty", "test")
                if key in self.model_fields_set
                and (seen := getattr(self, key)) != type(self).model_fields[key].default
                and getattr(seen, "kind", "") not in ("none", "contiguous")
            ]
            if wrong:
                raise failure(*wrong)
        return self

    @model_validator(mode="after")
    def _prepared_alike(self) -> Self:
        if isinstance(self.test, Source) and self.test.preprocess:
            text = (
                "given beside data.preprocess, which the test rows go through as well, as it is"
                " fitted on the training rows; leave this one out"
            )
            raise failure(("test.preprocess", text, self.test.preprocess))
        return self


class Compression(Spec):
    """What becomes of a vector before it is encoded."""

    compressor: Given[Annotated[Compressor, OneOf(COMPRESSORS)], Compressor | Block] = as_written(
        {"kind": "identity"}, "a map from vectors to what is sent instead of them"
    )
    error_feedback: Feedback = Field(
        default="none",
        description="what a sender keeps of its errors: none; ef, the sum of them; or ef21, what "
        "the receiver holds, of which only the change is sent",
    )
    by_layer: bool = Field(
        default=False,
        description="whether each layer of the model is compressed by itself, with a scale or a "
        "share of its own; the layers of a network are its parameters, other models have one",
    )
    if_longer: Literal["plain", "compressed"] = Field(
        default="plain",
        description="what is sent where the compressor could make a vector longer than it is: "
        "plain, the vector in full, which is exact; or compressed all the same",
    )


class Wire(Spec):
    """How vectors are encoded on both links; what arrives is what the encoding can carry."""

    values: Given[ValueFormat, ValueFormat | str] = as_written(
        ValueFormat.FLOAT32, "format of every number on the wire"
    )
    up: Given[Compression, Compression | Keys] = as_written(
        {}, "what the clients' vectors are compressed by"
    )
    down: Given[Compression, Compression | Keys] = as_written(
        {}, "what the server's vectors are compressed by"
    )


class Models(Spec):
    """Which models a run keeps beside that of its last round."""

    every: int | None = Field(
        default=None, ge=1, description="those of rounds n, 2n, ...; none but the last if null"
    )


class ScenarioKeys(Spec):
    """The keys of a scenario, each checked by itself."""

    name: str = Field(default="", description="for titles; the file's name where it is empty")
    seed: int = Field(default=1, ge=0, description="the seed of all that is random")
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
    fleet: Given[tuple[Group, ...], Sequence[Group | Keys]] = as_written(
        (), "the clients; as many ideal ones as the split has, where empty"
    )
    network: Given[Annotated[Network, OneOf(NETWORKS, default=STAR)], Network | Block] = as_written(
        {}, "what lies between clients and server"
    )
    participation: AnyParticipation = as_written({"kind": "full"}, "who is asked in a round")
    stop: Given[Stop, Stop | Keys] = as_written({}, "when the run ends")
    precision: Literal["float64", "float32"] = Field(
        default="float64",
        description="of what numbers samples are held, and gradients and objectives computed; "
        "steps, servers and what is sent stay as they are",
    )
    evaluator: Literal["one-by-one", "compiled", "vmap"] = Field(
        default="one-by-one",
        description="who computes: NumPy or PyTorch, one piece of work after the other; kernels "
        "that Numba compiles (the extra compiled), many clients at once, on threads; or, for the "
        "loss torch, PyTorch's vmap, the steps of many clients as one; they differ in last bits",
    )
    measures: AnyMeasures = as_written((), "what the observer evaluates beside the objective")
    observe: Given[Observe, Observe | Keys] = as_written({}, "which rounds the observer looks at")
    models: Given[Models, Models | Keys] = as_written(
        {}, "which models are kept beside the last one"
    )
    variants: Mapping[str, Mapping[str, Any]] = as_written(
        {},
        "name -> the keys in which a variant differs from the rest; `{}` names the scenario as "
        "written, which is `base` otherwise",
    )
    sweep: Mapping[str, Any] | None = as_written(
        {},
        "key -> values: a variant for every combination; [1, 2], or {log: [0.01, 1, 5]}; a "
        "variant that shall not be swept says null",
    )
    seeds: int = Field(default=1, ge=1, description="how many runs, with seed, seed + 1, ...")

    @property
    def clients(self) -> int:
        """The size of the fleet; 0 where the split decides."""
        return sum(group.count for group in self.fleet)
