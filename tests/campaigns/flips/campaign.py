"""The cases: what is damaged in each, what is done then, and what has come of it."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedsim.core.errors import FedsimError
from fedsim.results.record.folder import FAILED, STUDY, SUMMARY
from tests.guarded import FAULT, Tried

from .damage import MISSING, Damage, drawn
from .folders import homes
from .uses import used

SAME, NAMED, EARLIER = "as undamaged", "named", "as earlier"
"""What may come of a use of a damaged folder."""

_HOMES = (*["ended"] * 6, *["cut"] * 3, "priced")
_TELLS = ("compare", "report", "status")
"""Uses that leave damaged runs out, and say so."""

_LONGEST = 300  # of what is told of a fault


class Flips:
    """Plays cases.

    Args:
        place: a folder of its own.
        seed: of the campaign.
        uses: how many are made of a damaged folder.
    """

    def __init__(self, place: Path, seed: int, uses: int = 1) -> None:
        warnings.simplefilter("ignore")  # conditions of theory, of scenarios that are run again
        self.place, self._seed, self._uses = place / "place", seed, uses
        self.homes = homes(place)
        self._told: dict[tuple[str, str], str] = {}

    def case(self, number: int) -> tuple[str, Damage, list[str]]:
        """Return which folder is damaged in a case, how, and what is done then."""
        rng = np.random.default_rng([self._seed, number])
        name = _HOMES[rng.integers(len(_HOMES))]
        home = self.homes[name]
        damage = drawn(home.files, (self._seed, number, 1))
        uses = dict.fromkeys(str(rng.choice(home.uses)) for _ in range(self._uses))
        return name, damage, list(uses)

    def __call__(self, number: int) -> Iterator[Tried]:
        """Play a case."""
        name, damage, uses = self.case(number)
        home = self.homes[name]
        for use in uses:
            out = home.copied(self.place)
            if damage.to(out):
                outcome, text = self._tried(name, use, out, damage)
                said = f"{name}: {damage}: {text}" if outcome == FAULT else ""
                yield Tried(use, outcome, said[:_LONGEST])

    def _tried(self, name: str, use: str, out: Path, damage: Damage) -> tuple[str, str]:
        """Return what comes of a use of a damaged folder."""
        try:
            told, refused = used(use, self.homes[name], out), False
        except (FedsimError, FileNotFoundError) as error:
            told, refused = str(error), isinstance(error, FedsimError)
        except Exception as error:
            return FAULT, f"{type(error).__name__}: {error}"
        if told == self._undamaged(name, use):
            return SAME, ""
        if self._is_last(name, damage):
            return EARLIER, ""
        if (refused or use in _TELLS) and "/".join(damage.file.split("/")[:2]) in told:
            return NAMED, ""
        return FAULT, f"{'refused as' if refused else 'told is'} {told[:_LONGEST]}"

    def _undamaged(self, name: str, use: str) -> str:
        """Return what is told of a whole folder, which may be that a run has not come so far."""
        if (name, use) not in self._told:
            home = self.homes[name]
            try:
                told = used(use, home, home.copied(self.place))
            except (FedsimError, FileNotFoundError) as error:
                told = str(error)
            self._told[name, use] = told
        return self._told[name, use]

    def _is_last(self, name: str, damage: Damage) -> bool:
        """Say whether a file is gone that is written last, so that it may not be there yet."""
        file = Path(damage.file)
        parts = [each for each in self.homes[name].files if Path(each).parent == file.parent]
        last = file.parent.suffix == ".parts" and damage.file == parts[-1]
        return damage.kind == MISSING and (last or file.name in (SUMMARY, STUDY, FAILED))
