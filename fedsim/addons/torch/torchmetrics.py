"""Metrics of torchmetrics as measures: lookup by name, and creation for the classes of the data."""

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from fedsim.core.blocks.wording import named_line, nearest
from fedsim.core.errors import DataError
from fedsim.core.extras import missing

_PLACES = ("torchmetrics.classification", "torchmetrics.regression", "torchmetrics")
"""Modules in which classes are looked up, in order: they have one class per task."""


def metric_class(given: object) -> type[Any] | None:
    """Return the class of torchmetrics that was passed or named; None for anything else.

    Raises:
        DataError: torchmetrics is not installed, or has no class of that name.
    """
    if isinstance(given, type):
        return given if hasattr(given, "update") and hasattr(given, "compute") else None
    if not isinstance(given, str):
        return None
    places = [_module(place) for place in _PLACES]
    for place in places:
        named = getattr(place, given, None)
        if isinstance(named, type):
            return named
    names = {name for place in places for name in place.__all__ if name[0].isupper()}
    hint = nearest(given, sorted(names)) or ", such as MulticlassF1Score"
    raise DataError("measures", f"torchmetrics has no class {given!r}{hint}")


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "torchmetrics":
            raise
        text = missing("a metric by its name", "torchmetrics", "metrics")
        raise DataError("measures", text) from None


def check_options(made: type[Any], options: Mapping[str, Any]) -> None:
    """Check that a class takes options.

    Raises:
        DataError: it takes none.
    """
    known = inspect.signature(made).parameters
    if any(each.kind is each.VAR_KEYWORD for each in known.values()) and hasattr(made, "__init__"):
        known = {**known, **dict.fromkeys(_COMMON)}  # type: ignore[assignment]  # names alone
    for name in options:
        if name not in known:
            listed = ", ".join(each for each in known if each not in (*_COMMON, "kwargs"))
            raise DataError("measures", f"{made.__name__} has no option {name}; it has {listed}")


_COMMON = ("compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache")


def make_metric(made: type[Any], options: Mapping[str, Any], classes: int | None) -> Any:
    """Create a metric of torchmetrics.

    Args:
        made: the class.
        options: its arguments.
        classes: the number of classes of the data, for a required `num_classes`; None for none.

    Raises:
        DataError: the metric cannot be created.
    """
    parameter = inspect.signature(made).parameters.get("num_classes")
    keywords = dict(options)
    if classes is not None and parameter is not None and "num_classes" not in keywords:
        keywords["num_classes"] = classes
    try:
        return made(**keywords)
    except Exception as error:  # noqa: BLE001 - the code of another library may raise anything
        arguments = ", ".join(f"{name}={value!r}" for name, value in keywords.items()) or "nothing"
        text = f"{made.__name__} of torchmetrics cannot be made with {arguments}"
        raise DataError("measures", f"{text}: {named_line(error)}") from None


def snake_case(name: str) -> str:
    """Return a column name for a class.

    >>> snake_case("MulticlassF1Score"), snake_case("BinaryAUROC")
    ('multiclass_f1_score', 'binary_auroc')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
