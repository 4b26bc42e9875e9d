"""The manifest of a run: its provenance, and the hashes of its result files.

The manifest is authoritative: a file with another hash is damaged, even if it is readable. The
manifest has a hash of itself, its seal. So a flipped bit anywhere in a folder is found when a run
is resumed, and in a file when that file is read.

Two orders matter. The manifest is written after the tables and before the summary, whose hash it
already has (`RunFolder.close`): a killed process can leave a folder without a summary, which counts
as unfinished, but never a summary without a manifest. And on reading, the schema
version is checked before the seal and the fields: a manifest of another version may be sealed and
filled in another way, and the reader should get the version as the reason, not damage.
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

from fedsim.core.errors import DataError, RoundTableError, VersionError
from fedsim.core.extras import VERSION
from fedsim.core.files import open_file, read_file
from fedsim.results.record.schema import ROUNDS_VERSION, SCHEMA_VERSION

MANIFEST = "manifest.json"
MADE_FROM = "scenario"
"""The key of the hash of a run's scenario without its seed, which all seeds of a variant share."""

COMPUTING = "computing"
"""The key of the evaluator that computed a run's numbers."""

EVALUATOR = "evaluator"
"""The key, below `COMPUTING`, of what computed the clients' work."""

EVERY = "observe.every"
"""The key, below `COMPUTING`, of how many rounds lie between two looks, where the scenario leaves
it open and it is not 1."""

INPUTS = "inputs"
"""The key of the hashes of the files that the scenario names beside its data, by path."""

ROUNDS = "rounds_version"
"""The key of the version of the round table; earlier manifests lack it."""

CODE_VERSION = "version"
"""The key of the version that the caller gave for code handed over in Python; null if none was."""

PRICED_FROM = "repriced_from"
"""The key of the source of a run that was re-priced, not made."""

LIVE = "live"
"""The key of what a live run has beside a simulated one: bytes sent, clients that left."""

FILES, EVENTS, SEAL = "files", "events", "seal"
"""Keys: the hash of each file; rows and hash of the log's content; the hash of all the rest."""

AGAIN = "repeat the run with fedsim run"
"""The remedy: a damaged run does not count as complete, so `fedsim run` makes it again."""

_RECORDED = ("simpy", "numpy", "scipy", "pandas", "pyarrow")


class Content(BaseModel):
    """Number of rows of a log, and the hash of their content."""

    model_config = ConfigDict(strict=True)

    rows: int
    sha256: str


class Manifest(BaseModel):
    """The fields of every manifest, beside its schema version; further ones are allowed."""

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
    """Return the provenance of a run made in this process.

    Args:
        seed: of the run.
        scenario: a hash of the scenario without its seed.
        code: a hash of the code that makes it.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        ROUNDS: ROUNDS_VERSION,
        "seed": seed,
        MADE_FROM: scenario,
        "code": code,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": dict(_versions()),
    }


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of the libraries that decide a run's last bits, cached."""
    return ("fedsim", VERSION), *((name, version(name)) for name in _RECORDED)


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file with its seal."""
    return {**content, SEAL: _seal(content)}


def as_json(content: Mapping[str, Any]) -> str:
    """Return a mapping as JSON; numbers that are not finite become null."""
    return json.dumps(_finite(content), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open_file(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the content of a run's JSON file.

    Raises:
        DataError: there is none, or it is damaged.
    """
    return _read(path)[1]


def read_sealed(path: Path) -> dict[str, Any]:
    """Return the content of a sealed JSON file.

    Raises:
        DataError: it is missing, or differs from what was written.
    """
    written, content = _read(path)
    _check_seal(path, written, content)
    return content


def _read(path: Path) -> tuple[bytes, dict[str, Any]]:
    try:
        written = read_file(path)
        content = json.loads(written)
    except FileNotFoundError:
        raise DataError("run", f"there is no {path}; {AGAIN}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise damage_error(path, str(error)) from None
    if not isinstance(content, dict):
        raise damage_error(path, f"got a {type(content).__name__} where a mapping belongs")
    return written, content


def _check_seal(path: Path, written: bytes, content: Mapping[str, Any]) -> None:
    # The seal is of the values; the bytes are compared as well, since JSON ignores some of them:
    # white space, or all but the last of repeated keys.
    if content.get(SEAL) != _seal(content) or written != as_json(content).encode():
        raise damage_error(path, "its content does not match its hash")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run.

    Raises:
        VersionError: it is of another version of the schema.
        DataError: there is none, or it is damaged.
    """
    path = folder / MANIFEST
    if folder.is_dir() and not path.exists():
        text = f"the run in {folder} is not complete: it has no {MANIFEST}"
        raise DataError("run", f"{text}; {AGAIN}")
    written, content = _read(path)
    schema_version = content.get("schema_version")
    if schema_version is None:
        raise damage_error(path, "it lacks its schema version")
    if schema_version != SCHEMA_VERSION:
        raise VersionError(folder, schema_version, SCHEMA_VERSION, AGAIN)
    _check_seal(path, written, content)
    check_kinds(Manifest, content, path)
    return content


def check_round_version(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Validate that this fedsim reads the round table of a run.

    Raises:
        RoundTableError: it is of another version.
    """
    if (seen := manifest.get(ROUNDS, 1)) != ROUNDS_VERSION:
        raise RoundTableError(folder, seen, ROUNDS_VERSION, AGAIN)


def check_kinds(model: type[BaseModel], content: dict[str, Any], path: Path) -> None:
    """Validate the types of a JSON file's fields.

    Raises:
        DataError: naming all missing fields, or else the first wrong one.
    """
    try:
        model.model_validate(content)
    except ValidationError as error:
        details = error.errors(include_url=False)
        missing = [_place(detail) for detail in details if detail["type"] == "missing"]
        if missing:
            raise damage_error(path, f"it lacks {', '.join(missing)}") from None
        text = f"{_place(details[0])}: got {details[0]['input']!r}; {details[0]['msg']}"
        raise damage_error(path, text) from None


def check_files(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Validate that files of a run have their manifest's hashes; return the manifest.

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
            raise damage_error(path, str(error)) from None
        if not same:
            raise damage_error(path, f"its content does not match its hash in {MANIFEST}")
    return manifest


def damage_error(path: Path, reason: str) -> DataError:
    """Return the error for a damaged file of a run."""
    reason = reason.strip().partition("\n")[0].rstrip(".")
    return DataError("run", f"{path} is damaged ({reason}); {AGAIN}")


def _place(error: ErrorDetails) -> str:
    return ".".join(map(str, error["loc"]))


def _seal(content: Mapping[str, Any]) -> str:
    unsealed = {key: value for key, value in content.items() if key != SEAL}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True).encode()).hexdigest()
