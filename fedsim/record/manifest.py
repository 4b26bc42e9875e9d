"""The manifest of a run: what it was made with, and the hashes of the files that hold its results.

A run is what its manifest says: a file that has another hash is damaged, whatever it can be
read as. The manifest has a hash of itself, its seal. So a flipped bit anywhere in a folder is
found when a run is taken up again, and in a file that is read when that is read.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from fedsim.errors import DataError, VersionError
from fedsim.extras import VERSION
from fedsim.record.schema import SCHEMA_VERSION

MANIFEST = "manifest.json"
MADE_FROM = "scenario"
"""The key of the hash of a run's scenario without its seed, which all seeds of a variant share."""

COMPUTING = "computing"
"""The key of how the numbers of a run were computed: who evaluated its work."""

INPUTS = "inputs"
"""The key of the hashes of the files that the scenario names beside its data, by path."""

PRICED_FROM = "repriced_from"
"""The key of what a run is of that was not made but priced again."""

FILES, EVENTS, SEAL = "files", "events", "seal"
"""Keys: the hash of each file; rows and hash of the log's content; the hash of all the rest."""

AGAIN = "make the run again with fedsim run"
"""What helps: a run that is damaged does not count as made, so that `fedsim run` makes it."""

_RECORDED = ("simpy", "numpy", "scipy", "pandas", "pyarrow")


class Content(BaseModel):
    """How much a log tells, and the hash of what it tells."""

    model_config = ConfigDict(strict=True)

    rows: int
    sha256: str


class Manifest(BaseModel):
    """What every manifest tells, beside its schema version; it may tell more."""

    model_config = ConfigDict(strict=True, extra="allow")

    seed: int
    scenario: str
    code: str
    python: str
    machine: str
    versions: dict[str, str]
    computing: dict[str, Any]
    events: Content
    files: dict[str, str]


def made_with(seed: int, scenario: str, code: str) -> dict[str, Any]:
    """Return what a run is made with here and now.

    Args:
        seed: of the run.
        scenario: a hash of the scenario without its seed.
        code: a hash of what makes it.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "seed": seed,
        MADE_FROM: scenario,
        "code": code,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": dict(_versions()),
    }


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of what decides the last bits of a run, which stay while it runs."""
    return ("fedsim", VERSION), *((name, version(name)) for name in _RECORDED)


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file with its seal."""
    return {**content, SEAL: _seal(content)}


def as_json(content: Mapping[str, Any]) -> str:
    """Return a mapping as JSON; what is not finite becomes null."""
    return json.dumps(_finite(content), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_mapping(path: Path) -> dict[str, Any]:
    """Return what a JSON file of a run says.

    Raises:
        DataError: there is none, or it is damaged.
    """
    return _read(path)[1]


def read_sealed(path: Path) -> dict[str, Any]:
    """Return what a JSON file says that has a seal.

    Raises:
        DataError: there is none, or it is not to the byte what was written.
    """
    written, content = _read(path)
    _check_seal(path, written, content)
    return content


def _read(path: Path) -> tuple[bytes, dict[str, Any]]:
    try:
        written = path.read_bytes()
        content = json.loads(written)
    except FileNotFoundError:
        raise DataError("run", f"there is no {path}; {AGAIN}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None
    if not isinstance(content, dict):
        raise damaged(path, f"got a {type(content).__name__} where a mapping belongs")
    return written, content


def _check_seal(path: Path, written: bytes, content: Mapping[str, Any]) -> None:
    if content.get(SEAL) != _seal(content) or written != as_json(content).encode():
        raise damaged(path, "it has another hash than it says")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run.

    Raises:
        VersionError: it is of another version of the schema.
        DataError: there is none, or it is damaged.
    """
    path = folder / MANIFEST
    written, content = _read(path)
    seen = content.get("schema_version")
    if seen is None:
        raise damaged(path, "it does not tell its schema version")
    if seen != SCHEMA_VERSION:
        raise VersionError(folder, seen, SCHEMA_VERSION, AGAIN)
    _check_seal(path, written, content)
    check_kinds(Manifest, content, path)
    return content


def check_kinds(model: type[BaseModel], content: dict[str, Any], path: Path) -> None:
    """Make sure that what a JSON file tells is of the kinds that belong there.

    Raises:
        DataError: it is not; the message names all that is missing, or else the first place.
    """
    try:
        model.model_validate(content)
    except ValidationError as error:
        wrong = error.errors(include_url=False)
        missing = [_place(each) for each in wrong if each["type"] == "missing"]
        if missing:
            raise damaged(path, f"it does not tell {', '.join(missing)}") from None
        text = f"{_place(wrong[0])}: got {wrong[0]['input']!r}; {wrong[0]['msg']}"
        raise damaged(path, text) from None


def check_files(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Make sure that files of a run are those that its manifest tells of; return the manifest.

    Raises:
        DataError: the manifest or one of the files is missing or damaged.
    """
    manifest = read_manifest(folder)
    hashes = manifest[FILES]
    for name in names:
        path = folder / name
        try:
            same = hash_of(path) == hashes.get(name)
        except FileNotFoundError:
            raise DataError("run", f"there is no {path}; {AGAIN}") from None
        except OSError as error:
            raise damaged(path, str(error)) from None
        if not same:
            raise damaged(path, f"it has another hash than {MANIFEST} says")
    return manifest


def damaged(path: Path, reason: str) -> DataError:
    """Return what to raise of a file that is not what a run has left."""
    reason = reason.strip().partition("\n")[0].rstrip(".")
    return DataError("run", f"{path} is damaged ({reason}); {AGAIN}")


def _place(error: ErrorDetails) -> str:
    return ".".join(map(str, error["loc"]))


def _seal(content: Mapping[str, Any]) -> str:
    told = {key: value for key, value in content.items() if key != SEAL}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
