"""When a run ends, and which of its rounds are evaluated, as scenario blocks.

A scenario names a stop rule by its kind as a key below `stop`, since a run has at most one of each
kind: `stop: {rounds: 5000, gap: 1e-5, patience: {rounds: 20}}`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from fedsim.core.blocks.catalogue import BlockCatalogue, described
from fedsim.core.blocks.choice import OneOf, failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import BitsOrNone, DurationOrNone, JoulesOrNone
from fedsim.core.blocks.spec import Given, Keys, Spec, as_written, per_cent
from fedsim.core.blocks.wording import nearest, printable, show
from fedsim.protocol.stop_rules import (
    STOPS,
    Above,
    EmptyBatteries,
    EnergyLimit,
    EpsilonLimit,
    GapTarget,
    MeasureTarget,
    ObjectiveTarget,
    Patience,
    RoundCheck,
    RoundEnd,
    RoundLimit,
    StopRule,
    TargetRule,
    TimeLimit,
    TrafficLimit,
    Whole,
)


class RunStopped(BaseException):
    """Ends the server's coroutine when a stop rule applies; its text is the reason.

    Like a cancellation it is no error, so `except Exception` does not catch it.
    """


class NoClientsLeft(RunStopped):
    """Ends the server's coroutine when no client will ever take part again."""


def ended_by(error: BaseException, *kinds: type[BaseException]) -> BaseException | None:
    """Return the exception of one of some kinds with which a server's coroutine has ended.

    A method may commit within a task of an `asyncio.TaskGroup`, which raises a group of exceptions.

    Args:
        error: with which the coroutine has ended.
        kinds: the kinds that are an end and no error.

    Returns:
        The first one, if the coroutine has no other error; else None.

    Example:
        >>> ended_by(BaseExceptionGroup("", [RunStopped("rounds: 3 of 3")]), RunStopped)
        RunStopped('rounds: 3 of 3')
    """
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, kinds) else None
    ends, others = error.split(kinds)
    if ends is None or others is not None:
        return None
    return ended_by(ends.exceptions[0], *kinds)


@dataclass(frozen=True)
class RuleOrBound:
    """A Pydantic annotation: a user-defined stop rule, or a number that a measure has to reach."""

    def validate(
        self, value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        """Return the rule that a block describes, or a number."""
        if isinstance(value, StopRule) or (isinstance(value, Mapping) and "kind" in value):
            return OneOf(STOPS).validate(value, info)
        return handler(per_cent(value))

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `validate`; serialise a rule of any class."""
        return core_schema.with_info_wrap_validator_function(
            self.validate,
            core_schema.float_schema(allow_inf_nan=False),
            serialization=core_schema.plain_serializer_function_ser_schema(_dump, info_arg=True),
        )


def _dump(value: object, info: SerializationInfo) -> object:
    return value.model_dump(mode=info.mode) if isinstance(value, StopRule) else value


def _value(rule: type[StopRule], default: object = None) -> Any:
    """Return a field for the only parameter of a rule."""
    return as_written(default, rule.model_fields[rule.value_key()].description or "")


class Stop(Spec):
    """When a run ends: at the end of the first round that meets one of these.

    `time` and `batteries` end it at that very moment, in the middle of a round. Beside these rules
    any column of the scenario's measures is one: `test_accuracy: 90 %` (or 0.9) waits for that or
    more, and `nonzeros: 20` for that or less. User-defined rules stand at their kinds.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[Any, RuleOrBound()]] = Field(init=False)

    rounds: Whole = _value(RoundLimit, 1000)
    gap: Above | None = _value(GapTarget)
    objective: float | None = _value(ObjectiveTarget)
    time: DurationOrNone = _value(TimeLimit)
    bits: BitsOrNone = _value(TrafficLimit)
    energy: JoulesOrNone = _value(EnergyLimit)
    epsilon: Above | None = _value(EpsilonLimit)
    batteries: Whole | None = _value(EmptyBatteries)
    patience: Given[Patience | None, Patience | Keys | None] = as_written(
        None, "the objective, or a measure, has not improved for some rounds"
    )

    @model_serializer(mode="wrap")
    def _without_epsilon(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omit it without privacy, so that files and fingerprints of older scenarios stay."""
        written: dict[str, object] = write(self)
        if self.epsilon is None:
            written.pop("epsilon", None)
        return written

    @model_validator(mode="before")
    @classmethod
    def _kinds_of_rules(cls, written: object, info: ValidationInfo) -> object:
        """Give each user-defined rule the kind that it stands at; a null leaves it out."""
        if not isinstance(written, Mapping):
            return written
        fields = cls.model_fields
        if written.keys() <= fields.keys():
            return written
        kinds = BlockCatalogue.of(info.context).names(STOPS)
        known = [*fields, *(kind for kind in kinds if kind not in fields)]
        keys: dict[object, object] = {}
        wrong = []
        for key, value in written.items():
            if key in fields or key not in kinds:
                keys[key] = value
            elif value is not None:
                keys[key] = _with_kind(str(key), value, info.context)
            if key not in known and isinstance(value, Mapping):
                # Checked here: otherwise it would only be refused as "not a number".
                alias = OneOf(STOPS).suggest(str(key), info.context)
                hint = alias or nearest(key, known) or "."
                what = f"unknown key '{printable(str(key))}'{hint}"
                wrong.append((str(key), f"{what} Accepted here: {', '.join(known)}", value))
        if wrong:
            raise failure(*wrong)
        return keys

    @model_validator(mode="after")
    def _at_their_kinds(self) -> Self:
        wrong = [
            (key, f"got a rule of the kind {rule.kind}; give it at the key {rule.kind}", rule.kind)
            for key, rule in self.own.items()
            if rule.kind != key
        ]
        if wrong:
            raise failure(*wrong)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the keys, among them those of user-defined rules."""
        whole = handler(schema)
        properties = handler.resolve_ref_schema(whole)["properties"]
        for model in described.get().every(STOPS):
            block = model.__get_pydantic_json_schema__(model.__pydantic_core_schema__, handler)
            bare = handler.resolve_ref_schema(block)["properties"].get(model.value_key())
            forms = [block, *([bare] if bare else []), {"type": "null"}]
            for kind in STOPS.names_of(model):
                properties.setdefault(kind, {"anyOf": forms, "default": None})
        return whole

    @property
    def figures(self) -> Mapping[str, float]:
        """The columns of measures that end a run, with their bounds."""
        return {key: bound for key, bound in self._extra.items() if not isinstance(bound, StopRule)}

    @property
    def own(self) -> Mapping[str, StopRule]:
        """The user-defined rules, by their kinds."""
        return {key: rule for key, rule in self._extra.items() if isinstance(rule, StopRule)}

    @property
    def _extra(self) -> Mapping[str, Any]:
        return self.__pydantic_extra__ or {}

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield the natures that its rules declare."""
        for rule in self.rules:
            yield from ((rule.key, nature) for _, nature in rule.natures())

    @property
    def rules(self) -> Iterator[StopRule]:
        """Yield the rules in the order of their checks; the first that applies gives the reason.

        Targets come first, then rules that are blocks, then limits. So a run that reaches its
        target reports that, even in its last round.
        """
        values = {name: value for name in STOPS.own if (value := getattr(self, name)) is not None}
        every = [_rule(STOPS.own[name], value) for name, value in values.items()]
        every += [MeasureTarget(measure=name, value=bound) for name, bound in self.figures.items()]
        blocks = [rule for rule in (self.patience, *self.own.values()) if rule is not None]
        limits = [rule for rule in every if not isinstance(rule, TargetRule | Patience)]
        yield from (rule for rule in every if isinstance(rule, TargetRule))
        yield from (*blocks, *limits)

    @property
    def targets(self) -> dict[str, float]:
        """The target values, by column: of a gap, an objective, or measures."""
        return dict(rule.target for rule in self.rules if isinstance(rule, TargetRule))

    def readers(self, column: str) -> Iterator[str]:
        """Yield the keys of the rules that read a column."""
        yield from (rule.key for rule in self.rules if column in rule.columns)

    def watch(self) -> RoundCheck:
        """Return the check of one run by all rules; the reason begins with the rule's key."""
        checks = [(rule.key, rule.watch()) for rule in self.rules]

        def check(end: RoundEnd) -> str:
            for key, applies in checks:
                if reason := applies(end):
                    return f"{key}: {reason}"
            return ""

        return check


def _with_kind(key: str, value: object, context: object) -> object:
    """Return the block of a rule with its kind; a bare value is the rule's only parameter.

    Raises:
        ValidationError: the value is bare, but the rule does not have exactly one parameter; or
            the rule belongs to an installed package that cannot be used.
    """
    if isinstance(value, StopRule):
        return value
    if isinstance(value, Mapping):
        return {"kind": key, **value}
    model = OneOf(STOPS).model(key, context)
    name = model.value_key() if model and issubclass(model, StopRule) else ""
    if not name:
        raise failure((key, f"got {show(value)}; give a block of keys", value))
    return {"kind": key, name: value}


def _rule(model: type[StopRule], value: object) -> StopRule:
    """Return a rule from the value of its only parameter, in SI units; a rule stays as it is."""
    return value if isinstance(value, StopRule) else model.in_si(**{model.value_key(): value})


# Which rounds are evaluated, as a scenario block, and with which model.

Counting = Literal["rounds", "iterates"]
"""The model that stands for a round: the one when it closes, or the one before."""


class Observe(Spec):
    """Which rounds' models are evaluated: other rounds have no objective, gap or measures."""

    every: int | None = Field(
        default=None,
        ge=1,
        description=(
            "evaluate rounds n, 2n, ..., and the last one; a stop at a gap applies at these"
            " only. By default 1; or, where evaluation takes long and no stop rule needs"
            " it, the interval that keeps it at a twentieth of the clients' computation"
        ),
    )

    def looks(self, number: int) -> bool:
        """Return whether a round is on the schedule, regardless of whether it is the last."""
        return number % (self.every or 1) == 0
