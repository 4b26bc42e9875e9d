"""Texts as bytes: each row is a few bytes, and its label is the next one."""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedsim.core.blocks.spec import AnyPath
from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_bytes
from fedsim.core.memory import check_budget
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples


class Text(Source):
    """The bytes of a text, for language models: features are tokens from 0 to 255.

    Row i consists of the `context` bytes from position i `stride` on. Its label is the next byte.
    With the split `contiguous` each client has its own passage.
    """

    source: ClassVar[str] = "any file; as bytes: Al-Rfou et al., AAAI 2019, section 1"

    kind: Literal["text"] = "text"
    path: AnyPath = Field(description="the file, relative to the scenario file's folder")
    context: PositiveInt = Field(default=16, description="bytes per row")
    stride: PositiveInt = Field(
        default=1, description="bytes from the start of one row to the start of the next"
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the file."""
        path = folder / self.path
        content = np.frombuffer(decompress(read_bytes(path), path), np.uint8)
        if content.size <= self.context:
            text = f"{path} has {content.size} bytes; a row takes {self.context} and the next one"
            raise DataError("data.context", text)
        rows = (content.size - self.context - 1) // self.stride + 1
        check_budget("data.stride", f"{rows} rows of {path}", 9 * rows * (self.context + 1))
        windows = np.lib.stride_tricks.sliding_window_view(content, self.context)
        # No byte follows the last window, which therefore has no label.
        X = np.ascontiguousarray(windows[: -1 : self.stride])
        return Samples(X, content[self.context :: self.stride].astype(np.float64))
