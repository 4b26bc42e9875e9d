"""Flower apps as clients, and Flower's strategies as servers, in fedsim's simulated world.

from fedsim.flower import app

problem = app(client_app, clients=10, initial=Net().state_dict(), cost={"operations": 2e9})
scenario = {"problem": {"loss": problem}, "algorithm": method(FedMedian()), ...}
result = fedsim.run(scenario)

It needs Flower, installed by `pip install '.[flower]'`.
"""

from fedsim.addons.flower import (
    App,
    Cost,
    Flower,
    app,
    method,
    seconds_of,
)

__all__ = [
    "App",
    "Cost",
    "Flower",
    "app",
    "method",
    "seconds_of",
]
