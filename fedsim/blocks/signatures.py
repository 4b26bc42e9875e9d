"""The signature of a block's constructor, for the completion of notebooks and editors."""

from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo


class LazySignature:
    """The attribute `__signature__` of a class whose validator is built when it is first used.

    Until then pydantic has no signature but `**data`, though all fields are known.
    """

    def __get__(self, instance: object, owner: type[BaseModel]) -> Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # else `inspect` takes a block for a function
        fields = owner.model_fields
        bare = SimpleNamespace(__annotations__={name: fields[name].annotation for name in fields})
        types = get_type_hints(bare)  # without what pydantic is told beside the type
        return Signature([_parameter(name, fields[name], types[name]) for name in fields])


def _parameter(name: str, field: FieldInfo, annotation: object) -> Parameter:
    default = Parameter.empty if field.is_required() else field.get_default()
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
