"""The files that fleet and network follow, each read once."""

from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fedsim.blocks.wording import printable
from fedsim.building.graphs import read_graph
from fedsim.errors import DataError
from fedsim.physics.availability import PresenceLaw, read_intervals
from fedsim.physics.carbon import Carbon, Intensity
from fedsim.physics.radios.traces import Trace
from fedsim.physics.signals import Constant, Steps
from fedsim.physics.traces import read_intensity, read_power

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    import networkx as nx

T = TypeVar("T")


class Files:
    """Reads files; what was read is kept, because groups and variants share it.

    Args:
        folder: where relative paths start.

    Raises:
        DataError, OSError: by all methods, where a file is not what it should be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[tuple[Any, ...], Any] = {}

    def rate(self, trace: Trace) -> Steps:
        """Return the rate that a trace says, bit/s."""
        rate: object = trace.rate(self.read)
        if not isinstance(rate, Steps):
            text = f"the rate of {trace.kind} is a {type(rate).__name__}; return Steps"
            raise DataError("trace", text)
        if trace.starts_anywhere and not isfinite(rate.period):
            text = f"{trace.kind} does not repeat, so no client can start anywhere in it"
            raise DataError("trace", text)
        return rate

    def power(
        self,
        path: Path,
        read: Callable[..., Steps] = read_power,
        **options: bool | float | str,
    ) -> Steps:
        """Return the power that a file says, W."""
        return self.read(read, path, **options)

    def carbon(self, law: Carbon) -> Intensity:
        """Return what electricity emits."""
        signal: object = law.signal(self._intensity)
        if not isinstance(signal, Constant | Steps):
            text = f"the signal of {law.kind} is a {type(signal).__name__}"
            raise DataError("carbon", f"{text}; return Constant or Steps")
        return Intensity(signal)

    def _intensity(self, path: Path, *, repeat: bool) -> Steps:
        return self.read(read_intensity, path, repeat=repeat)

    def presence(
        self,
        path: Path,
        read: Callable[..., Mapping[int, PresenceLaw]] = read_intervals,
        **options: bool | int | str,
    ) -> Mapping[int, PresenceLaw]:
        """Return when the clients are there, by their number."""
        return self.read(read, path, **options)

    def graph(self, path: Path) -> "nx.Graph[str]":
        """Return a graph, with attributes of links at its edges."""
        return self.read(read_graph, path)

    def pairs(self, path: Path) -> list[tuple[str, str]]:
        """Return the edges of a graph, as pairs of nodes that speak to each other.

        Raises:
            DataError: an arrow of a directed graph has none that leads back.
        """
        graph = self.graph(path)
        for source, target in graph.edges if graph.is_directed() else ():
            if not graph.has_edge(target, source):
                text = (
                    f'{path} has an arrow from "{printable(source)}" to "{printable(target)}" and'
                    " none back, but neighbours speak to each other, and their weights would not be"
                    ' doubly stochastic; give both, or edgedefault="undirected"'
                )
                raise DataError("path", text)
        return list(graph.edges)

    def read(self, read: Callable[..., T], path: Path, **options: bool | float | str) -> T:
        """Return what a function makes of a file, which it is called with."""
        key = read, path, *options.items()
        if key not in self._read:
            self._read[key] = read(self._folder / path, **options)
        found: T = self._read[key]
        return found
