"""Fields of a block: how a default is written."""

from typing import Any

from pydantic import Field


def as_written(default: object, description: str) -> Any:  # noqa: ANN401 - like pydantic's Field
    """Return a field whose default is what a file would have, validated like the rest."""
    return Field(default=default, description=description)
