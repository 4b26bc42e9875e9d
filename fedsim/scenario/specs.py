"""A scenario: what the user writes, as frozen specs with every default in sight."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.problems import LOSSES, SOURCES, SPLITS, Loss, Source, Split
from fedsim.scenario.choice import OneOf, failure
from fedsim.scenario.devices import Device
from fedsim.scenario.methods import OneMethod
from fedsim.scenario.quantities import Bits, Duration, Joules, Rate, Seconds
from fedsim.scenario.radios import Radio
from fedsim.spec import Spec
from fedsim.wire import ValueFormat


def _as_written(default: object, description: str) -> Any:  # noqa: ANN401 - like pydantic's Field
    """Return a field whose default is what a file would have, validated like the rest."""
    return Field(default=default, description=description)


class ProblemSpec(Spec):
    """What is minimised: a loss on data that is split over the clients."""

    loss: Annotated[Loss, OneOf(LOSSES)] = Field(description="the clients' loss")
    data: Annotated[Source, OneOf(SOURCES)] = Field(description="where the samples are from")
    split: Annotated[Split, OneOf(SPLITS)] = _as_written(
        {"kind": "contiguous"}, "which client gets which samples"
    )


class Wire(Spec):
    """How vectors are encoded on both links; what arrives is what the encoding can carry."""

    values: ValueFormat = Field(
        default=ValueFormat.FLOAT32, description="format of every number on the wire"
    )


class BeaconSilence(Spec):
    """A silent client sends an empty message, so that the server need not wait for it."""

    kind: Literal["beacon"] = Field(default="beacon", description="silence is said")


class DeadlineSilence(Spec):
    """A silent client sends nothing: the server waits until a deadline closes the round."""

    kind: Literal["deadline"] = Field(default="deadline", description="silence is waited for")
    after: Duration = Field(description="from the broadcast to the end of the round")
    late: Literal["keep", "drop"] = Field(
        default="keep", description="replies that miss it: kept for a later round, or dropped"
    )


Silence = BeaconSilence | DeadlineSilence


class Group(Spec):
    """Clients of one make."""

    count: int = Field(default=1, ge=1, description="how many clients")
    device: Device = _as_written("ideal", "a preset, or a block that starts from one")
    radio: Radio = _as_written("ideal", "a preset, or a block that starts from one")


class ServerLink(Spec):
    """The server's link, which all transfers of the moment share."""

    up: Rate = _as_written("unlimited", "rate of all clients' uplinks together")
    down: Rate = _as_written("unlimited", "rate of all clients' downlinks together")
    latency: Seconds = _as_written("0 s", "one-way delay, added to the radio's")


class Network(Spec):
    """What lies between the clients and the server."""

    topology: Literal["star"] = Field(default="star", description="every client by its own radio")
    server: ServerLink = _as_written({}, "the server's own link")


class FullParticipation(Spec):
    """Every client takes part in every round."""

    kind: Literal["full"] = Field(default="full", description="who takes part")


class Stop(Spec):
    """When a run ends: at the end of the first round that meets one of these."""

    rounds: int = Field(default=1000, ge=1, description="this many rounds")
    gap: float | None = Field(default=None, gt=0, description="objective this near to the optimum")
    time: Duration | None = Field(default=None, description="this much simulated time")
    bits: Bits | None = Field(default=None, description="this much sent, both ways together")
    energy: Joules | None = Field(default=None, description="this much spent by all clients")


Measure = Literal["gradient_norm"]
"""What the observer can evaluate beside the objective; a column of the round table each."""


class Scenario(Spec):
    """A federated problem, the method that solves it, and the world that it runs in."""

    name: str = Field(default="", description="for titles; the file's name where it is empty")
    seed: int = Field(default=1, ge=0, description="the seed of all that is random")
    problem: ProblemSpec = Field(description="what is minimised: loss, data and split")
    algorithm: Annotated[Algorithm, OneMethod(ALGORITHMS)] = Field(
        description="the method and its parameters"
    )
    wire: Wire = _as_written({}, "how vectors are encoded")
    silence: Annotated[Silence, OneOf((BeaconSilence, DeadlineSilence))] = _as_written(
        {"kind": "beacon"}, "how the server learns that a client is silent"
    )
    fleet: tuple[Group, ...] = Field(
        default=(), description="the clients; as many ideal ones as the split has, where empty"
    )
    network: Network = _as_written({}, "what lies between clients and server")
    participation: Annotated[FullParticipation, OneOf((FullParticipation,))] = _as_written(
        {"kind": "full"}, "who is asked in a round"
    )
    stop: Stop = _as_written({}, "when the run ends")
    measures: tuple[Measure, ...] = Field(
        default=(), description="what the observer evaluates every round beside the objective"
    )
    variants: Mapping[str, Mapping[str, Any]] = _as_written(
        {}, "name -> the keys in which a variant differs from the rest"
    )
    seeds: int = Field(default=1, ge=1, description="how many runs, with seed, seed + 1, ...")

    @property
    def clients(self) -> int:
        """The size of the fleet; 0 where the split decides."""
        return sum(group.count for group in self.fleet)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check what needs no data, one block against another."""
        conflicts = list(self._conflicts())
        if conflicts:
            raise failure(*conflicts)
        return self

    def _conflicts(self) -> Iterator[tuple[str, str, object]]:
        """Yield key, message and value of what does not go together."""
        split, fleet = getattr(self.problem.split, "clients", None), self.clients
        if fleet and split not in (None, fleet):
            text = (
                f"seen {split}, but the counts of fleet add up to {fleet}; leave clients out, or"
                " make the two agree"
            )
            yield "problem.split.clients", text, split
        drops = isinstance(self.silence, DeadlineSilence) and self.silence.late == "drop"
        if drops and self.algorithm.late_replies_required:
            text = (
                f'seen "drop", but the server of {self.algorithm.kind} keeps a running sum of what'
                " clients send: without one late reply it is wrong for ever; use keep"
            )
            yield "silence.late", text, "drop"
