"""Worlds that failed: made small, written down, and played ever after by a test."""

from pathlib import Path

from ruamel.yaml import YAML

from .campaign import Played, prepared
from .dice import Block
from .drawing import world
from .playing import Outcome, play
from .shrinking import shrunk

FOUND = Path(__file__).parent / "found"
"""Where the files are whose worlds once failed; the files of data that they name are those of
`prepared`."""


def keep(failed: Played, folder: Path = FOUND) -> Path:
    """Write a world that failed, made as small as it goes, with what it ended with."""
    with prepared() as files:

        def fails(block: Block) -> bool:
            if "rounds" not in block.get("stop", {}):  # there would be 1000 of them
                return False
            outcome = play(block, files, twice=failed.outcome.sign == "twice")
            return (outcome.end, outcome.sign) == (failed.outcome.end, failed.outcome.sign)

        small = shrunk(world(failed.number), fails)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"world-{failed.number}.yaml"
    as_yaml(small, path, f"world {failed.number}: {failed.outcome.sign}")
    return path


def replayed(path: Path) -> Outcome:
    """Play the world of a file, twice."""
    block = YAML(typ="safe", pure=True).load(path)
    with prepared() as files:
        return play(block, files, twice=True)


def as_yaml(block: Block, path: Path, remark: str = "") -> None:
    """Write a world as a file that `fedsim run` takes, beside the files that it names."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped there
    with path.open("w", encoding="utf-8") as stream:
        if remark:
            stream.write(f"# {remark}\n")
        yaml.dump(block, stream)
