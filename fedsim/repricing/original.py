"""The original: a run that has ended, as its folder tells of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsim.blocks.spec import Spec
from fedsim.errors import DataError
from fedsim.record.ends import is_whole
from fedsim.record.folder import SCENARIO
from fedsim.record.manifest import read_manifest
from fedsim.record.parts import read_table
from fedsim.record.soundness import check_run
from fedsim.scenario import Plan, Scenario, load
from fedsim.scenario.located import path_of


@dataclass(frozen=True)
class Original:
    """A run that has ended.

    Attributes:
        folder: where it is.
        summary, manifest: what they say.
        samples: how many each client has.
        scenario: of the run.
        blocks: classes of one's own that it may name.
    """

    folder: Path
    summary: dict[str, Any]
    manifest: dict[str, Any]
    samples: tuple[int, ...]
    scenario: Scenario
    blocks: tuple[type[Spec], ...]

    @classmethod
    def of(cls, folder: Path, blocks: tuple[type[Spec], ...]) -> "Original":
        """Read what is known of a run, but for its log.

        Raises:
            DataError: it has not ended, or not well, or is of an older version.
        """
        summary = check_run(folder)
        if not is_whole(summary["status"]):
            raise DataError("folder", f"{folder}: the run has failed: {summary['reason']}")
        manifest = read_manifest(folder)
        samples = read_table(folder, "clients")["samples"].to_pylist()
        scenario = load(folder / SCENARIO, blocks=blocks).variants[0].scenario
        return cls(folder, summary, manifest, tuple(samples), scenario, blocks)

    @property
    def name(self) -> str:
        """The variant's."""
        return str(self.summary["variant"])

    def plan(self, overrides: Sequence[str]) -> Plan:
        """Return what the scenario of the run says once these are laid on it.

        A fleet that the split has made, of ideal clients, becomes one group of them where an
        override reaches into it.

        Raises:
            ScenarioError: it is wrong then.
        """
        within = any(_is_within_fleet(text) for text in overrides)
        if within and not self.scenario.fleet:
            overrides = [f"fleet=[{{count: {len(self.samples)}}}]", *overrides]
        return load(self.folder / SCENARIO, overrides=overrides, blocks=self.blocks)


def _is_within_fleet(override: str) -> bool:
    """Say whether an override reaches into the fleet, as fleet.0.radio=wifi does."""
    path = path_of(override.partition("=")[0])
    return path[0] == "fleet" and len(path) > 1
