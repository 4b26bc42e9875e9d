"""The missing runs of an interrupted campaign: those of its scenario that have not ended.

They may go on as this is read: a folder does not tell that.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from fedsim.errors import DataError
from fedsim.record.folder import SUMMARY, RunFolder
from fedsim.record.parts import read_table
from fedsim.record.studies import Study

_MOST = 20  # runs that are named


class UnfinishedCampaign(NamedTuple):
    """A folder of runs that does not hold all runs of its scenario.

    Attributes:
        place: the folder.
        name: of the scenario.
        asked: how many runs there are to be.
        lacking: the seeds that lack, of each variant that lacks any.
        priced: whether the runs are priced again.
    """

    place: Path
    name: str
    asked: int
    lacking: Mapping[str, list[int]]
    priced: bool

    @property
    def folders(self) -> set[Path]:
        """Where the runs that lack are, or will be, in full."""
        return {
            RunFolder.place(self.place, variant, seed).resolve()
            for variant, seeds in self.lacking.items()
            for seed in seeds
        }

    @property
    def extent(self) -> str:
        """How far the campaign went, such as "4 of 6 runs"."""
        return f"{self.asked - len(self.folders)} of {self.asked} runs"

    def describe(self) -> str:
        """Return which runs are missing, and how far those went that had begun."""
        missing = ", ".join(
            self._missing(variant, seed)
            for variant, seeds in self.lacking.items()
            for seed in seeds
        )
        text = f"{self.place} is unfinished, with {self.extent} of the scenario {self.name}"
        helps = "price the runs" if self.priced else "run the scenario"
        return f"{text}: {missing}; {helps} again to finish it"

    def _missing(self, variant: str, seed: int) -> str:
        folder = RunFolder.place(self.place, variant, seed)
        if not folder.exists():
            return f"{folder} has not begun"
        try:
            rounds = len(read_table(folder, "rounds"))
        except (FileNotFoundError, DataError):
            return f"{folder} has not ended"
        return f"{folder} has not ended (there are {rounds} rounds of it)"


def find_unfinished(place: Path, study: Study | None) -> Iterator[UnfinishedCampaign]:
    """Yield what a folder lacks, if it lacks anything and says what it should hold."""
    seeds = study.seeds if study else {}
    lacking = {variant: list(_lacking(place, variant, own)) for variant, own in seeds.items()}
    some = {variant: own for variant, own in lacking.items() if own}
    if study and some:
        yield UnfinishedCampaign(
            place, study.name, sum(map(len, seeds.values())), some, study.priced
        )


def _lacking(place: Path, variant: str, seeds: list[int]) -> Iterator[int]:
    for seed in seeds:
        if not (RunFolder.place(place, variant, seed) / SUMMARY).exists():
            yield seed
