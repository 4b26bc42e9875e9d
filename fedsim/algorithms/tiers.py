"""Methods in tiers: which methods gateways can run with clients, and a server with gateways.

Liu, Zhang, Song, Letaief, "Client-Edge-Cloud Hierarchical Federated Learning", ICC 2020 (HierFAVG):
after every kappa_1 local steps of clients a gateway averages their models, and after every kappa_2
of these rounds the server averages the gateways' models. Here a gateway runs the server of an inner
method (`Algorithm.serve`) with the nodes below it, from the model that it has received and for
kappa_2 rounds. It is also a client of an outer method (`Algorithm.handle`), whose local steps these
rounds replace.

So both are methods of averaging, whose clients send the result of local steps. The server of the
inner method starts again with each model from above, so its clients may not keep a state that
belongs to the server's. The outer method must let other work replace the local steps, as it does
for clients that run their own programs (`Algorithm.asks`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import CoreSchema

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.algorithms.local_training import LocalUpdates
from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.spec import Block, Given

FOR_CLIENTS = frozenset(LocalUpdates.model_fields)
"""The keys of clients' local steps."""

_STEP: Mapping[str, Any] = {"step_size": 1.0}
"""Values of the required keys among these, for a method whose clients take no steps."""


def why_not_inner(method: Algorithm) -> str:
    """Return why gateways cannot run a method with the nodes below them; empty if they can.

    >>> from fedsim.algorithms import FedAvg, GradientDescent
    >>> why_not_inner(FedAvg(step_size=1.0))
    ''
    >>> why_not_inner(GradientDescent(step_size=1.0))
    'its clients do not answer with the result of local steps alone'
    """
    if not isinstance(method, LocalUpdates):
        return "its clients do not answer with the result of local steps alone"
    if method.personal or method.local:
        return "its clients keep models, or parts of one, of their own"
    if method.asynchronous:
        return "its server takes replies as they come, and gateways have rounds"
    if method.computes_after_reply or type(method).memory is not LocalUpdates.memory:
        return "its clients keep a state that belongs to that of one server"
    return ""


def why_not_outer(method: Algorithm) -> str:
    """Return why no server can run a method with gateways as its clients; empty if one can."""
    if (reason := why_not_inner(method)) or not isinstance(method, LocalUpdates):
        return reason
    if method.asks == "loss":
        return "its clients do more than local steps, which a gateway's rounds could replace"
    if method.pull is not None:
        return "its clients' steps are pulled to the server's model, and a gateway's rounds are not"
    return ""


def keys_of_clients(method: Algorithm) -> list[str]:
    """Return the keys of clients' local steps that are set in the method of gateways."""
    try:
        plain = type(method).model_validate({"kind": method.kind, **_STEP})
    except ValidationError:  # a user-defined method that requires more
        return []
    return [
        key
        for key in type(method).model_fields
        if key in FOR_CLIENTS and getattr(method, key) != getattr(plain, key)
    ]


@dataclass(frozen=True)
class OuterMethod(OneOf):
    """An annotation for pydantic: a method whose required keys of local steps may be missing."""

    def validate(self, value: object, info: ValidationInfo) -> object:
        """Return the method that a block describes, with a step size that has no effect."""
        if isinstance(value, str):
            value = {"kind": value}
        if isinstance(value, Mapping) and isinstance(kind := value.get("kind"), str):
            model = self.model(kind, info.context)
            fields = {} if model is None else model.model_fields
            value = {**{key: each for key, each in _STEP.items() if key in fields}, **value}
        return super().validate(value, info)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the alternatives, for editors: those of `OneOf`, without required steps."""
        described = super().__get_pydantic_json_schema__(schema, handler)
        return {"anyOf": [_without_steps(each) for each in described["anyOf"]]}


def _without_steps(block: Mapping[str, Any]) -> dict[str, Any]:
    required = [key for key in block.get("required", ()) if key not in _STEP]
    return {**block, "required": required} if "required" in block else dict(block)


AnyOuter = Given[Annotated[Algorithm, OuterMethod(ALGORITHMS)], Algorithm | Block]
"""A field for the method of a server whose clients are gateways."""
