"""Drawing: worlds of a scenario's doubt, for whatever else is to be asked in them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim.blocks.spec import Spec
from fedsim.errors import DataError
from fedsim.robustness.design import Design
from fedsim.robustness.finding import Doubts, constants_of
from fedsim.robustness.playing import overridden
from fedsim.scenario import load


def draw_worlds(
    source: str | Path | Mapping[str, Any],
    count: int,
    *,
    overrides: Sequence[str] = (),
    seed: int = 1,
    doubts: Doubts | None = None,
    blocks: Sequence[type[Spec]] = (),
) -> list[list[str]]:
    """Return worlds of a scenario's doubt, each as overrides that `run` and `reprice` take.

    `robust` asks who takes less of what. Anything else, such as who dies first, is asked by
    running a scenario in worlds: a claim that holds in k of n of them is as sure as that says.

    Args:
        source: the scenario, as `run` takes it.
        count: of independent worlds, from 1.
        overrides: of the scenario.
        seed: of the drawing.
        doubts: intervals in place of the presets', "lte.tail_time" -> "1 s..15 s".
        blocks: classes of one's own that the scenario names.

    Raises:
        ScenarioError: the scenario is wrong.
        DataError: there is no constant in doubt, or an interval that cannot be.
    """
    if count < 1:
        raise DataError("count", f"got {count} worlds; give 1 or more")
    plan = load(source, overrides=overrides, blocks=blocks)
    scenario = plan.variants[0].scenario
    constants = constants_of([scenario], doubts or {}, priced=False)
    if not constants:
        raise DataError("doubt", "the fleet of this scenario stands on no constant in doubt")
    design = Design.of(constants, count, seed, runs=count)
    return [overridden(scenario, design.one(number)) for number in range(count)]
