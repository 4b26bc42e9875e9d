"""Every kind of block there is, and the catalogue that a scenario is read with."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from fedsim.algorithms import ALGORITHMS
from fedsim.blocks.catalogue import AnyRegistry, BlockCatalogue
from fedsim.blocks.plugins import blocks_of, specs_in
from fedsim.blocks.spec import Spec
from fedsim.physics.availability import AVAILABILITY
from fedsim.physics.batteries import CHARGING
from fedsim.physics.carbon import CARBON
from fedsim.physics.devices import DEVICE_KINDS
from fedsim.physics.networks import NETWORKS
from fedsim.physics.overlay import OVERLAYS
from fedsim.physics.packet_loss import PACKET_LOSSES
from fedsim.physics.radios import RADIO_KINDS
from fedsim.physics.radios.traces import TRACES
from fedsim.physics.slowdowns import SLOWDOWNS
from fedsim.problems import ARCHITECTURES, LOSSES, MEASURES, PENALTIES, SOURCES, SPLITS, STARTS
from fedsim.protocol.participation import PARTICIPATION
from fedsim.protocol.silence import SILENCES
from fedsim.protocol.stop_rules import STOPS
from fedsim.wire import COMPRESSORS

REGISTRIES: tuple[AnyRegistry, ...] = (
    ALGORITHMS,
    LOSSES,
    ARCHITECTURES,
    PENALTIES,
    SOURCES,
    SPLITS,
    STARTS,
    COMPRESSORS,
    MEASURES,
    DEVICE_KINDS,
    RADIO_KINDS,
    NETWORKS,
    OVERLAYS,
    PARTICIPATION,
    SILENCES,
    STOPS,
    AVAILABILITY,
    CHARGING,
    CARBON,
    SLOWDOWNS,
    PACKET_LOSSES,
    TRACES,
)
"""In the order in which they are listed."""


def catalogue(blocks: Iterable[object] = (), source: object = None) -> BlockCatalogue:
    """Return what a scenario can name.

    Args:
        blocks: user-defined classes.
        source: a scenario made in Python; the classes of the blocks in it are known as well.

    Raises:
        BlockError: see `BlockCatalogue`.
    """
    return BlockCatalogue(REGISTRIES, (*blocks, *_made_in_python(source)))


def _made_in_python(source: object) -> Iterator[type[Spec]]:
    """Yield the classes of all blocks in a value that a registry could have."""
    for each in specs_in(source):
        if any(registry.admits(type(each)) for registry in REGISTRIES):
            yield type(each)


def blocks_in(plugins: Iterable[Path]) -> list[type[Spec]]:
    """Return the blocks in Python files of a user's own, which are run.

    Raises:
        BlockError: a file cannot be used, or holds no block.
    """
    return blocks_of(plugins, REGISTRIES)
