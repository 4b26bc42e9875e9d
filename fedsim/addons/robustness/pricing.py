"""Pricing: the costs of a finished run to its target in each world of a design.

There are two ways. If the rounds of a run follow the recursion (`hindrance` is empty), all worlds
are priced at once from its log (`price`). Otherwise each world takes a replay of the log in the
simulator, or a new training run if decisions depend on time there (`play`). The second way costs a
run per world, so it uses few worlds.
"""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from math import floor
from pathlib import Path
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

from fedsim.addons.repricing import reprice
from fedsim.addons.repricing.conditions import refusals
from fedsim.addons.repricing.history import Original, read_history
from fedsim.addons.robustness.constants import ConstantKey, key_of, placed_groups
from fedsim.addons.robustness.design import Worlds
from fedsim.addons.robustness.fleets import clients_of, counts_grams, overheads, unplayable
from fedsim.addons.robustness.loads import Loads
from fedsim.addons.robustness.recursion import prices
from fedsim.addons.robustness.uncertain_inputs import BLOCKS
from fedsim.core.atomic import check_links, write_whole
from fedsim.core.blocks.presets import Presettable
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError, RepricingError, RunWarning, TheoryWarning
from fedsim.core.files import read_file
from fedsim.core.ports import Array
from fedsim.core.threads import share_out
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.manifest import CODE_VERSION, read_manifest
from fedsim.results.result import Result
from fedsim.running.api import run_plan
from fedsim.running.imports import sources
from fedsim.scenario import Group, Scenario, Variant
from fedsim.wire import HEADER_BITS

_AT_ONCE = 2**16
"""Numbers in an array of clients x worlds that are priced together: several such arrays fit into
the cache. Blocks of worlds are distributed over threads."""

World = Mapping[ConstantKey, Array]


class Costs(NamedTuple):
    """Costs of a run in each world, shape (W,).

    Attributes:
        t: seconds; infinite if the run never reached the target, NaN if it would have taken other
            decisions in that world.
        joules: likewise.
        grams: of CO2, likewise; NaN in every world if they are not tracked or cannot be computed.
    """

    t: Array
    joules: Array
    grams: Array


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, and the round in which it reached the target.

    Attributes:
        folder: the folder of the run.
        variant, seed: variant and seed of the run.
        look: the round in which the target was reached, 0 for the start; None if it never was.
        bits: the bits sent until then, both ways.
        target: the target.
        world: the number of the only world in which it is priced; None for all.
    """

    folder: Path
    variant: str
    seed: int
    look: int | None
    bits: float
    target: Target
    world: int | None = None

    def original(self, blocks: tuple[type[Spec], ...] = ()) -> Original:
        """Return the recorded run."""
        return Original.of(self.folder, blocks)


def hindrance(original: Original) -> str:
    """Return why the recursion cannot price a run; empty if it can.

    The recursion holds for rounds that wait for all recipients, with one server, and with radios
    and devices that are described by constants.
    """
    scenario = original.scenario
    variant = Variant(original.name, scenario)
    looks = original.summary["looks"]
    for fault in refusals(scenario, variant, len(original.samples), looks):
        prefix = f"variant {variant.name}: "
        return f"{fault.key}: {fault.message.removeprefix(prefix)}"
    return unplayable(scenario)


def price(
    run: FinishedRun,
    world: World,
    worlds: int,
    blocks: tuple[type[Spec], ...] = (),
) -> Costs:
    """Price a run that has no hindrance in many worlds.

    Args:
        run: see `FinishedRun`.
        world: the uncertain constants, each of shape (W,).
        worlds: W.
        blocks: user-defined classes that the scenario names.

    Raises:
        DataError: its log lacks information.
    """
    original = run.original(blocks)
    if run.look is None:
        # It did not reach the target, and rounds do not depend on the world.
        never = np.full(worlds, np.inf)
        counted = counts_grams(original.scenario.fleet)
        return Costs(never, never, never if counted else np.full(worlds, np.nan))
    return Costs(*(cost[0] for cost in priced_at([run.look], original, world, worlds)))


def priced_at(
    looks: Sequence[int],
    original: Original,
    world: World,
    worlds: int,
) -> Costs:
    """Price a run that has no hindrance up to several of its rounds, in many worlds.

    Args:
        looks: the rounds, L of them, ascending; 0 is the start.
        original: the recorded run.
        world: the uncertain constants, each of shape (W,).
        worlds: W.

    Returns:
        Costs until the end of each of the rounds, of shape (L, W).

    Raises:
        DataError: its log lacks information.
    """
    scenario, history = original.scenario, read_history(original.folder, len(original.samples))
    groups = scenario.fleet or (Group(count=len(original.samples)),)
    framings = [group.radio.packaging for group in groups for _ in range(group.count)]
    loads = Loads(history, framings, HEADER_BITS)
    # Blocks of worlds that fit into the cache; each is independent of the others.
    step = max(1, _AT_ONCE // len(framings))
    costs = np.empty((len(Costs._fields), len(looks), worlds))

    def fill(begin: int, end: int) -> None:
        """Fill in some blocks of worlds."""
        for first in range(begin * step, min(end * step, worlds), step):
            part = slice(first, min(first + step, worlds))
            part_of_world = {key: values[part] for key, values in world.items()}
            framed = overheads(groups, part_of_world, part.stop - part.start)
            clients = clients_of(scenario, groups, part_of_world, part.stop - part.start)
            # Batteries are tested at the last look only. Their levels never rise, so a world that
            # fits then has fitted at every earlier look.
            known = prices(history, loads.with_overheads(framed), clients, looks)
            every = np.stack([known.seconds, known.joules, known.grams])
            # A world in which a battery reaches a mark has no price: the run would have decided
            # differently.
            costs[:, :, part] = np.where(known.fits, every, np.nan)

    share_out(fill, -(-worlds // step))
    return Costs(*costs)


# Runs that the recursion cannot price: replayed or repeated in one world.


def play(
    run: FinishedRun, worlds: Worlds, blocks: tuple[type[Spec], ...] = (), base: Path | None = None
) -> Costs:
    """Replay a run in its world, or train again if its log cannot be replayed there.

    Args:
        run: see `FinishedRun`; it has a world.
        worlds: all worlds.
        blocks: user-defined classes that the scenario names.
        base: where relative paths of the scenario start; the current folder if None.

    Returns:
        Seconds, joules and grams, of shape (); infinite if the run does not reach the target in
        that world. Grams are NaN if its log has none.

    Raises:
        ScenarioError: the scenario is invalid in that world.
        DataError: the data differ from those of the run.
    """
    overrides = overridden(run.original(blocks).scenario, worlds.one(run.world or 0))
    # Only its costs are kept.
    with tempfile.TemporaryDirectory(prefix="fedsim-") as folder:
        again = _again(run, overrides, Path(folder), blocks, base or Path.cwd())
        row: dict[Any, Any] = run.target.costs(again).to_dict("records")[0]
    # A finished run that misses the target never reaches it; a failed run has unknown costs.
    if again.summary["status"].iloc[0] == "done" and not row["reached"]:
        row = {name: np.inf for name in Costs._fields if name in row}
    return Costs(*(np.asarray(row.get(name, np.nan), np.float64) for name in Costs._fields))


def _again(
    run: FinishedRun, overrides: list[str], folder: Path, blocks: tuple[type[Spec], ...], base: Path
) -> Result:
    try:
        return reprice(run.folder, overrides, folder / "price", base=base, blocks=blocks)
    # Decisions depend on time in this world, so only a new run has its costs.
    except RepricingError:
        original = run.original(blocks)
    with catch_warnings():  # the original run has issued them already
        for category in (TheoryWarning, RunWarning):
            simplefilter("ignore", category)
        plan = replace(original.plan(overrides), folder=base)
        repeated = run_plan(plan, out=folder / "made", check=False)
    if repeated.summary["problem"].iloc[0] != original.summary["problem"]:
        text = f"the data have changed since {run.folder} was written; run the study again"
        raise DataError("folder", text)
    return repeated


def overridden(scenario: Scenario, world: Mapping[ConstantKey, float]) -> list[str]:
    """Return the overrides that set the constants of a world in a scenario.

    Args:
        scenario: the scenario of the run.
        world: the value of each constant, SI.
    """
    overrides = []
    for place, group in placed_groups(scenario):
        for name in BLOCKS:
            block = getattr(group, name)
            if isinstance(block, Presettable):
                for key, value in world.items():
                    known = key[0] == name and key[2] in type(block).model_fields
                    # The same constant may belong to several groups that name its preset.
                    if known and key == key_of(place, group, name, key[2]):
                        text = _write(block, key[2], value)
                        overrides.append(f"{place}.{name}.{key[2]}={text}")
    return overrides


def _write(block: Presettable, field: str, value: float) -> str:
    """Return a value as written in a scenario."""
    # Framing is a whole number of bytes, as in `fleets.overheads`.
    accepted = floor(value) if field == "framing" else value
    changed = block.model_copy(update={field: float(accepted)})
    return str(changed.model_dump(mode="json")[field])


# The store of prices, from which an interrupted study resumes.
#
# The name of a file is a hash of all that its prices depend on: the run's log and code, the worlds,
# the target, and the code of the recursion. The file begins with the SHA-256 of its name and
# content. So a damaged or renamed file is detected and computed again.

FOLDER = "prices"
ENDING = ".prices"
_OLD = ".npy"  # suffix of earlier versions, without a seal
_SEAL = hashlib.sha256().digest_size


def describe_saved_prices(out: Path) -> str:
    """Return what an interrupted study has saved; nothing if it has no prices yet."""
    if not any((out / FOLDER).glob(f"*{ENDING}")):
        return ""
    return "Computed prices are saved. Repeat the command to resume."


class PriceStore:
    """A store of prices: one file per run, or per run and world.

    Args:
        out: the folder of the study's robustness; nothing is stored if None.

    Attributes:
        damaged: the names of damaged files.

    Raises:
        OutputError: a symbolic link takes the place of the folder.
    """

    def __init__(self, out: str | Path | None) -> None:
        self._folder = None if out is None else Path(out) / FOLDER
        if self._folder is not None:
            check_links(self._folder.parent, self._folder)
        self._seen = set[str]()
        self.damaged = set[str]()

    @property
    def remarks(self) -> list[str]:
        """Notes on damaged files."""
        if not self.damaged:
            return []
        count = len(self.damaged)
        files = "1 file was" if count == 1 else f"{count} files were"
        return [f"{files} damaged in {self._folder}: their runs were re-priced"]

    def _path(self, run: FinishedRun, worlds: Worlds) -> Path | None:
        if self._folder is None:
            return None
        manifest = read_manifest(run.folder)
        version = manifest.get(CODE_VERSION, "")
        if version is None:  # without a version, code may have changed between two runs
            return None
        question = f"{version} {run.look} {run.target} {run.world} {Costs._fields}"
        digest = hashlib.sha256(worlds.digest.encode())
        digest.update(
            f"{manifest['events']} {manifest['code']} {_pricing_code()} {question}".encode()
        )
        digest.update(read_file(run.folder / SCENARIO))
        name = f"{digest.hexdigest()[:32]}{ENDING}"
        # Also if nothing is stored yet: `tidy` keeps what this study has asked for.
        self._seen.add(name)
        return self._folder / name

    def read(self, run: FinishedRun, worlds: Worlds) -> Costs | None:
        """Return the stored costs of a run in every world, if an undamaged file exists."""
        path = self._path(run, worlds)
        if path is None:
            return None
        try:
            written = read_file(path)
        except FileNotFoundError:
            return None
        except OSError:  # a folder, or a file without read permission
            written = b""
        content = written[_SEAL:]
        # The seal covers the name, so that a copied file does not pass for another one.
        if written[:_SEAL] != _seal(path.name, content):
            self.damaged.add(path.name)
            return None
        return Costs(*np.load(BytesIO(content), allow_pickle=False))

    def store(self, run: FinishedRun, worlds: Worlds, costs: Costs) -> Costs:
        """Store the costs of a run, and return them.

        Raises:
            OutputError: it cannot be written.
        """
        path = self._path(run, worlds)
        if path is not None:
            file = BytesIO()
            np.save(file, np.array(costs), allow_pickle=False)
            content = file.getvalue()
            write_whole(path, _seal(path.name, content) + content)
        return costs

    def tidy(self) -> None:
        """Remove files that this study has not used: those of other worlds, logs or targets."""
        for path in [] if self._folder is None else sorted(self._folder.glob("*")):
            if path.suffix in {ENDING, _OLD} and path.name not in self._seen and path.is_file():
                path.unlink(missing_ok=True)


@cache
def _pricing_code() -> str:
    """Return a hash of this module and all its imports, since prices depend on that code."""
    return sources({__name__: Path(__file__).read_bytes()}).hash


def _seal(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + content).digest()
