"""The checks of user-defined blocks, by kind."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fedsim.addons.conformance.aggregation import check_aggregation, check_attack
from fedsim.addons.conformance.algorithms import (
    Row,
    algorithm_rows,
    check_sending,
    diverges,
    easy_scenario,
)
from fedsim.addons.conformance.any_block import check_any
from fedsim.addons.conformance.compressors import check_compressor
from fedsim.addons.conformance.data import check_loss, check_source, check_split
from fedsim.addons.conformance.network_models import check_network_model
from fedsim.addons.conformance.physical import check_device, check_radio
from fedsim.addons.conformance.stops import check_stop_rule
from fedsim.algorithms import Algorithm
from fedsim.core.blocks.plugins import specs_in
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import format_path, join_names, show
from fedsim.core.errors import BlockError
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.network_models import NetworkModel
from fedsim.physics.radios import RadioLaw
from fedsim.problems import Loss, Source, Split
from fedsim.protocol.aggregation import Aggregation
from fedsim.protocol.attacks import Attack
from fedsim.protocol.stop_rules import StopRule
from fedsim.scenario import Plan, Scenario, load
from fedsim.scenario.building import Builder
from fedsim.scenario.building.smoothness import SmoothnessConstants
from fedsim.wire import Compressor

_PROBLEM = {
    "loss": {"kind": "squared", "scale": "mean", "l2": 0.01},
    "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise", "unit-rows"]},
    "split": {"kind": "iid"},
}
"""Its smoothness constant is below 1, so that usual default step sizes do not diverge."""

_STEP_SIZES = ("step_size", "learning_rate", "lr", "eta")
_SAFE = "0.1/L"

_CHECKS: Mapping[type[Spec], Callable[[Any], pd.DataFrame]] = {
    Compressor: check_compressor,
    Loss: check_loss,
    Split: check_split,
    DeviceLaw: check_device,
    RadioLaw: check_radio,
    NetworkModel: check_network_model,
    StopRule: check_stop_rule,
    Aggregation: check_aggregation,
    Attack: check_attack,
}


def check_blocks(
    blocks: Sequence[type[Spec]], plan: Plan | None = None
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the title of every block, and the table of its checks.

    Args:
        blocks: user-defined classes.
        plan: the parameters and the problem; a block that it does not name is tried with its
            defaults, an algorithm on a small least-squares problem.

    Raises:
        BlockError: a block has parameters without a valid default, and no plan names it.
        ScenarioError: an algorithm cannot be run on the problem at all.

    Example:
        >>> from fedsim.problems import Squared
        >>> [name for name, _ in check_blocks([Squared], None)]
        ['Squared {kind: squared, scale: mean, l2: 0.0, l1: 0.0}']
    """
    for title, rows in rows_by_block(blocks, plan):
        yield title, pd.DataFrame(list(rows))


def rows_by_block(
    blocks: Sequence[type[Spec]], plan: Plan | None = None
) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield titles and rows as `check_blocks` does; a check is made when its row is asked for."""
    scenarios = [variant.scenario for variant in plan.variants] if plan else []
    for model in blocks:
        named = [each for one in scenarios for each in specs_in(one) if type(each) is model]
        for block in dict.fromkeys(named) or [_by_default(model)]:
            within = next((one for one in scenarios if one.algorithm == block), None)
            if isinstance(block, Algorithm):
                yield from _check_method(block, within, blocks)
            else:
                folder = plan.folder if plan else Path()
                yield _title(block), _rows(check_block, block, folder)


def _check_method(
    method: Algorithm, within: Scenario | None, blocks: Sequence[type[Spec]]
) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield the titles and the rows of a method; `within` is the scenario that names it."""
    scenario, why = _scenario(method, within), ""
    if within is None and diverges(scenario, blocks):
        method, why = _with_safe_step(method)
        scenario = _scenario(method, within)
    title = _title(method)
    yield f"{title}{why}", algorithm_rows(scenario, blocks)
    yield f"{title}: what it sends", _rows(check_sending, scenario, blocks)


def _rows(check: Callable[..., pd.DataFrame], *arguments: object) -> Iterator[Row]:
    """Yield the rows of a table of checks, which are made when the first row is asked for."""
    yield from check(*arguments).to_dict("records")  # type: ignore[misc]  # keys are texts


def check_block(block: Spec, folder: Path = Path()) -> pd.DataFrame:
    """Return the table of a block's checks: those of its kind, or of any block if it has none.

    An algorithm is checked in worlds, too: see `check_algorithm`.

    Args:
        block: the block, with its parameters.
        folder: the folder for relative paths of a source of data.

    Example:
        >>> from fedsim.scenario import Device
        >>> check_block(Device(kind="pi-4"))["outcome"].unique().tolist()
        ['kept']
    """
    if isinstance(block, Source):
        return check_source(block, folder)
    checks = (check for base, check in _CHECKS.items() if isinstance(block, base))
    return next(checks, check_any)(block)


def _scenario(method: Algorithm, within: Scenario | None) -> dict[str, Any]:
    """Return the problem and the algorithm of a scenario as plain data."""
    if within is None:
        return {"problem": _PROBLEM, "algorithm": method.model_dump(mode="json")}
    written = within.model_dump(mode="json")
    return {key: written[key] for key in ("problem", "algorithm", "participation")}


def _with_safe_step(method: Algorithm) -> tuple[Algorithm, str]:
    """Return a method with a small step in place of its default, and a clause that says so.

    A method without a parameter for its step is returned as it is.
    """
    name = next((name for name in _STEP_SIZES if name in type(method).model_fields), None)
    if name is None:
        return method, ""
    why = f", since {name}: {getattr(method, name)}, the default, diverges on this problem"
    for step in (_SAFE, _safe_number()):
        try:
            return type(method).model_validate({**method.model_dump(), name: step}), why
        except ValidationError:
            continue  # the field accepts only numbers, or neither
    return method, ""


def _safe_number() -> float:
    """Return 0.1/L of the small problem, to one digit."""
    scenario = {"problem": _PROBLEM, "algorithm": {"kind": "fedavg", "step_size": _SAFE}}
    (job,) = Builder(load(easy_scenario(scenario))).check()
    return float(f"{SmoothnessConstants.of(job.problem, job.algorithm).step('L_max') / 10:.1g}")


def _by_default(model: type[Spec]) -> Spec:
    """Return a block with its default parameters; a step size without one is 0.1/L."""
    name = next((name for name in _STEP_SIZES if name in model.model_fields), None)
    faults: list[ErrorDetails] = []
    for parameters in _defaults(name):
        try:
            return model.model_validate(parameters)
        except ValidationError as error:
            faults = error.errors()
    missing = [format_path(fault["loc"]) for fault in faults if fault["type"] == "missing"]
    if len(missing) < len(faults):
        raise BlockError(f"{model.__name__}: {'; '.join(_refused_defaults(faults))}")
    has, them = ("has", "it") if len(missing) == 1 else ("have", "them")
    file = Path(getattr(sys.modules.get(model.__module__), "__file__", None) or "mine.py").name
    raise BlockError(
        f"{model.__name__}: {join_names(missing, 'and')} {has} no default. Pass a scenario that"
        f" sets {them}: fedsim conformance {file} study.yaml"
    )


def _refused_defaults(faults: Sequence[ErrorDetails]) -> Iterator[str]:
    """Yield an error for each default value that the class itself refuses."""
    for fault in faults:
        if fault["type"] != "missing":
            key = format_path(fault["loc"])
            place = f"the default of {key}, {show(fault['input'])}, is" if key else "defaults are"
            yield f"{place} refused: {fault['msg'].replace('Input should', 'it should', 1)}"


def _defaults(step: str | None) -> Iterator[dict[str, Any]]:
    """Yield parameters to try: none, then a safe step as a text and as a number."""
    yield {}
    if step is not None:
        yield {step: _SAFE}
        yield {step: _safe_number()}


def _title(block: Spec) -> str:
    values = ", ".join(f"{key}: {value}" for key, value in block.model_dump(mode="json").items())
    return f"{type(block).__name__} {{{values}}}"
