"""Playing: runs that are made again in a world, where no recursion prices them."""

import tempfile
from pathlib import Path

import numpy as np

from fedsim.blocks.presets import Presettable
from fedsim.blocks.spec import Spec
from fedsim.errors import RepricingError
from fedsim.record.folder import SCENARIO
from fedsim.repricing import reprice
from fedsim.repricing.original import Original
from fedsim.results import Result
from fedsim.robustness.constants import Key
from fedsim.robustness.design import Design
from fedsim.robustness.finding import BLOCKS
from fedsim.robustness.pricing import Costs, Run
from fedsim.robustness.stored import Store
from fedsim.running.api import run as make
from fedsim.scenario import Scenario


def played(
    run: Run, original: Original, design: Design, store: Store, blocks: tuple[type[Spec], ...]
) -> Costs:
    """Play a run again in each world: its log where that can be, and else the training itself.

    Args:
        run: see `Run`.
        original: what is known of it.
        design: of the worlds.
        store: where prices are kept.
        blocks: classes of one's own that the scenario names.

    Raises:
        ScenarioError: the scenario is wrong in one of the worlds.
    """
    known = store.read(run)
    if known is not None:
        return known
    costs = np.full((2, design.count), np.nan)
    for number in range(design.count):
        world = {key: values[0] for key, values in design.world(slice(number, number + 1)).items()}
        overrides = overridden(original.scenario, world)
        with tempfile.TemporaryDirectory(prefix="fedsim-") as aside:
            row = run.target.costs(_again(run, overrides, Path(aside), blocks)).iloc[0]
            costs[:, number] = row["t"], row["joules"]
    return store.kept(run, Costs(*costs))


def _again(run: Run, overrides: list[str], aside: Path, blocks: tuple[type[Spec], ...]) -> Result:
    base = Path.cwd()
    try:
        return reprice(run.folder, overrides, aside / "priced", base=base, blocks=blocks)
    except RepricingError:
        file = run.folder / SCENARIO
        return make(file, out=aside / "made", overrides=overrides, blocks=blocks)


def overridden(scenario: Scenario, world: "dict[Key, float]") -> list[str]:
    """Return the overrides that lay a world on a scenario.

    Args:
        scenario: of the run.
        world: the value of each constant, SI.
    """
    found = []
    for number, group in enumerate(scenario.fleet):
        for name in BLOCKS:
            block = getattr(group, name)
            if isinstance(block, Presettable):
                for key, value in world.items():
                    if key[:2] == (name, block.kind):
                        text = _written(block, key[2], value)
                        found.append(f"fleet.{number}.{name}.{key[2]}={text}")
    return found


def _written(block: Presettable, field: str, value: float) -> str:
    """Return a value as a scenario writes it."""
    changed = block.model_copy(update={field: float(value)})
    return str(changed.model_dump(mode="json")[field])
