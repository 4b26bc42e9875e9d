"""The checks of user-defined blocks, by kind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from fedsim.addons.conformance.algorithms import check_algorithm, check_sending
from fedsim.addons.conformance.any_block import check_any
from fedsim.addons.conformance.compressors import check_compressor
from fedsim.addons.conformance.data import check_loss, check_source, check_split
from fedsim.addons.conformance.network_models import check_network_model
from fedsim.addons.conformance.physical import check_device, check_radio
from fedsim.addons.conformance.stops import check_stop_rule
from fedsim.algorithms import Algorithm
from fedsim.core.blocks.plugins import specs_in
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import BlockError
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.network_models import NetworkModel
from fedsim.physics.radios import RadioLaw
from fedsim.problems import Loss, Source, Split
from fedsim.protocol.stop_rules import StopRule
from fedsim.scenario import Plan, Scenario
from fedsim.wire import Compressor

_PROBLEM = {
    "loss": {"kind": "squared", "scale": "sum", "l2": 1.0},
    "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
    "split": {"kind": "iid"},
}

_CHECKS: Mapping[type[Spec], Callable[[Any], pd.DataFrame]] = {
    Compressor: check_compressor,
    Loss: check_loss,
    Split: check_split,
    DeviceLaw: check_device,
    RadioLaw: check_radio,
    NetworkModel: check_network_model,
    StopRule: check_stop_rule,
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
        BlockError: a block has parameters without a default, and no plan names it.
        ScenarioError: an algorithm cannot be run on the problem at all.

    Example:
        >>> from fedsim.problems import Squared
        >>> [name for name, _ in check_blocks([Squared], None)]
        ['Squared {kind: squared, scale: mean, l2: 0.0, l1: 0.0}']
    """
    scenarios = [variant.scenario for variant in plan.variants] if plan else []
    for model in blocks:
        named = [each for one in scenarios for each in specs_in(one) if type(each) is model]
        for block in dict.fromkeys(named) or [_by_default(model)]:
            within = next((one for one in scenarios if one.algorithm == block), None)
            title = _title(block)
            if isinstance(block, Algorithm):
                scenario = _scenario(block, within)
                yield title, check_algorithm(scenario, blocks)
                yield f"{title}: what it sends", check_sending(scenario, blocks)
            else:
                yield title, check_block(block, plan.folder if plan else Path())


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


def _by_default(model: type[Spec]) -> Spec:
    """Return a block with its default parameters; a step size is 0.1/L."""
    step = {"step_size": "0.1/L"} if "step_size" in model.model_fields else {}
    for parameters in ({}, step):
        try:
            return model.model_validate(parameters)
        except ValidationError as error:
            missing = ", ".join(".".join(map(str, fault["loc"])) for fault in error.errors())
    raise BlockError(
        f"{model.__name__} cannot be tried as it is, for it has no default of {missing}; give a"
        " scenario that names it beside the file"
    )


def _title(block: Spec) -> str:
    values = ", ".join(f"{key}: {value}" for key, value in block.model_dump(mode="json").items())
    return f"{type(block).__name__} {{{values}}}"
