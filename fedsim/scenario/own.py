"""Classes of a user's own that a scenario can name: algorithms and losses."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from fedsim.algorithms import Algorithm
from fedsim.blocks.choice import OneOf, kinds_of
from fedsim.blocks.spec import Spec
from fedsim.problems import Loss

Kind = TypeVar("Kind", bound=Spec)


class Extra(NamedTuple):
    """The context of a validation: what is known beside fedsim's own classes.

    Attributes:
        algorithms: the classes of algorithms that were passed in.
        losses: those of losses.
    """

    algorithms: tuple[type[Algorithm], ...] = ()
    losses: tuple[type[Loss], ...] = ()


def is_named(model: object, base: type[Spec]) -> bool:
    """Say whether something is a class below a base that a scenario can name by its kind."""
    return isinstance(model, type) and issubclass(model, base) and bool(kinds_of(model))


def joined(
    own: Sequence[type[Kind]], extra: Sequence[type[Kind]], base: type[Kind]
) -> tuple[type[Kind], ...]:
    """Return fedsim's own classes and the extra ones, each once.

    Raises:
        TypeError: an extra one is not a subclass of the base with a literal kind.
        ValueError: two are of one kind.
    """
    taken: dict[str, type[Kind]] = {}
    for model in (*own, *extra):
        if not is_named(model, base):
            name = base.__name__
            raise TypeError(f'{model!r} is no subclass of {name} with kind: Literal["..."]')
        for kind in kinds_of(model):
            if taken.setdefault(kind, model) is not model:
                raise ValueError(f"{model!r} and {taken[kind]!r} are both of kind '{kind}'")
    return tuple(dict.fromkeys(taken.values()))


def beside(
    own: Sequence[type[Kind]], given: Sequence[type[Kind]], made: object, base: type[Kind]
) -> tuple[type[Kind], ...]:
    """Return the classes that are not fedsim's own: passed in, or that of what Python has made."""
    every = joined(own, (*given, *([type(made)] if isinstance(made, base) else [])), base)
    return tuple(model for model in every if model not in own)


def made_in_python(source: object, *path: str) -> object:
    """Return what stands at a path of a scenario or a mapping; None where nothing does."""
    for key in path:
        source = source.get(key) if isinstance(source, Mapping) else getattr(source, key, None)
    return source


class OneLoss(OneOf):
    """An annotation for pydantic: a loss's block, or a loss made in Python."""

    def kinds(self, context: Any) -> tuple[str, ...]:  # noqa: ANN401 - pydantic's context
        """Return the kinds to choose from."""
        return self._known(context).kinds(context)

    def model(self, kind: str, context: Any) -> type[Spec]:  # noqa: ANN401 - pydantic's context
        """Return the class for one of `kinds`."""
        return self._known(context).model(kind, context)

    def takes(self, value: object) -> bool:
        """Take any loss made in Python."""
        return isinstance(value, Loss)

    def _known(self, context: Any) -> OneOf:  # noqa: ANN401 - pydantic's context
        return OneOf(self.models + (context.losses if isinstance(context, Extra) else ()))
