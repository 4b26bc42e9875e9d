"""Flower apps as clients, and Flower's strategies as servers, in fedsim's simulated world.

from fedsim.flower import app

problem = app(client_app, clients=10, initial=Net().state_dict(), cost={"operations": 2e9})
scenario = {"problem": {"loss": problem}, "algorithm": method(FedMedian()), ...}
result = fedsim.run(scenario)

It needs Flower, installed by `pip install '.[flower]'`.
"""

try:
    import flwr as _  # noqa: F401 - whether it is there
except ModuleNotFoundError as error:
    if error.name != "flwr":
        raise
    from fedsim.extras import missing

    raise ModuleNotFoundError(missing("fedsim.flower", "Flower", "flower"), name="flwr") from None

from fedsim.flower.adapters import App, app, method, seconds_of
from fedsim.flower.blocks import Cost
from fedsim.flower.method import Flower

__all__ = ["App", "Cost", "Flower", "app", "method", "seconds_of"]
