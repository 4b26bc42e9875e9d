"""Which algorithms a scenario can name: fedsim's, those passed in, those installed.

An installed package adds one by an entry point of the group "fedsim.algorithms", named by
the algorithm's kind. It is imported only when a scenario names that kind.
"""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeGuard

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.blocks.choice import OneOf, failure, kinds_of
from fedsim.blocks.spec import Spec
from fedsim.scenario.own import Extra, joined

GROUP = "fedsim.algorithms"


def is_method(model: object) -> TypeGuard[type[Algorithm]]:
    """Say whether something is a class of algorithms that a scenario can name."""
    return isinstance(model, type) and issubclass(model, Algorithm) and bool(kinds_of(model))


def united(extra: Sequence[type[Algorithm]]) -> tuple[type[Algorithm], ...]:
    """Return fedsim's algorithms and the extra ones, each once.

    Raises:
        TypeError: an extra one is not a subclass of Algorithm with a literal kind.
        ValueError: two are of one kind.
    """
    return joined(ALGORITHMS, extra, Algorithm)  # type: ignore[type-abstract]  # its base


def installed() -> dict[str, EntryPoint]:
    """Return the entry points of installed packages, by kind and in its order."""
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return {point.name: point for point in found}


def imported(point: EntryPoint) -> type[Algorithm]:
    """Import an installed algorithm.

    Raises:
        ImportError: that fails, or it leads to no algorithm of the kind it is named by.
    """
    try:
        model = point.load()
    except Exception as error:
        raise ImportError(f"{point.value} cannot be imported: {error!r}") from error
    if is_method(model) and point.name in kinds_of(model):
        return model
    raise ImportError(f"{point.value} is no subclass of Algorithm of the kind '{point.name}'")


class OneMethod(OneOf):
    """An annotation for pydantic: an algorithm's block, or an algorithm made in Python."""

    def kinds(self, context: Any) -> tuple[str, ...]:  # noqa: ANN401 - pydantic's context
        """Return the kinds to choose from, the installed ones last."""
        own = OneOf(self._known(context)).kinds(context)
        return tuple(dict.fromkeys((*own, *installed())))

    def model(self, kind: str, context: Any) -> type[Spec]:  # noqa: ANN401 - pydantic's context
        """Return the class for one of `kinds`; import it where it is an installed one."""
        own = OneOf(self._known(context))
        if kind in own.kinds(context):
            return own.model(kind, context)
        try:
            return imported(installed()[kind])
        except ImportError as error:
            raise failure(("kind", str(error), kind)) from error

    def takes(self, value: object) -> bool:
        """Take any algorithm made in Python."""
        return isinstance(value, Algorithm)

    def _known(self, context: Any) -> tuple[type[Spec], ...]:  # noqa: ANN401 - pydantic's context
        return self.models + (context.algorithms if isinstance(context, Extra) else ())
