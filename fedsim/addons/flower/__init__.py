"""Flower apps as clients, and Flower strategies as servers, in simulated worlds.

`fedsim.flower` hands its names on, and has an example.
"""

try:
    import flwr as _  # noqa: F401 - whether it is there
except ModuleNotFoundError as error:
    if error.name != "flwr":
        raise
    from fedsim.core.extras import missing

    raise ModuleNotFoundError(missing("fedsim.flower", "Flower", "flower"), name="flwr") from None

from fedsim.addons.flower.adapters import App, app, method, seconds_of
from fedsim.addons.flower.blocks import Cost
from fedsim.addons.flower.method import Flower

__all__ = ["App", "Cost", "Flower", "app", "method", "seconds_of"]
