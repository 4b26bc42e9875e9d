"""The mods of the installed Flower: what each does to the clients' updates is a loop of NumPy's."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context
from flwr.client import mod as older_mods
from flwr.clientapp import ClientApp
from flwr.clientapp import mod as newer_mods
from flwr.server import strategy as older
from flwr.serverapp import strategy as newer

import fedsim
from fedsim.flower import app, method
from tests.addons.flower.scenes import ZEROS, client_app, distance, partition
from tests.addons.flower.test_strategies import Walker, own, towards
from tests.tiers import every

CLIENTS, CLIP = 4, 5.0
PAGE = Path(__file__).parents[3] / "docs/howto/flower.md"
NOT_MODS = {"make_ffn", "centraldp_mods", "comms_mods", "localdp_mod", "secure_aggregation"}
NOT_MODS |= {"utils"}


def clients(interface: str, *mods: Any) -> Any:
    if interface == "newer":
        return client_app(towards, distance, *mods)
    return ClientApp(client_fn=walker, mods=list(mods))


def walker(context: Context) -> Any:
    """Return a client whose update is not zero: Flower's mods divide by its norm."""
    return Walker(partition(context) + 1).to_client()


def final(interface: str, strategy: Any, *mods: Any) -> Any:
    """Return the model after one round, from zeros, in which client m wants (m + 1)^2/2."""
    initial: dict[str, Any] = {"initial": ZEROS} if interface == "newer" else {}
    what: dict[str, Any] = {"clients": CLIENTS, "cost": {"operations": 1}, "evaluated_by": "nobody"}
    result = fedsim.run(
        {
            "problem": {"loss": app(clients(interface, *mods), **what, **initial)},
            "algorithm": method(strategy),
            "wire": {"values": "float64"},
            "fleet": [{"count": CLIENTS}],
            "stop": {"rounds": 1},
        }
    )
    return result.model()


def averaging(interface: str) -> Any:
    return newer.FedAvg() if interface == "newer" else older.FedAvg(initial_parameters=own())


def clipped() -> Any:
    """Return the mean of the updates, each of the norm `CLIP` at most."""
    size = sum(each.size for each in ZEROS.values())
    updates = [np.full(size, (m + 1) ** 2 / 2) for m in range(CLIENTS)]
    return np.mean([u * min(1.0, CLIP / np.linalg.norm(u)) for u in updates], axis=0)


both = every("interface", ["newer", "older"])


def module(interface: str) -> Any:
    return newer_mods if interface == "newer" else older_mods


@both
@every("name", ["fixedclipping_mod", "adaptiveclipping_mod"])
def test_updates_are_clipped_at_the_clients(interface: str, name: str) -> None:
    """Without noise, which the strategy would add, the model is the mean of clipped updates."""
    strategies = newer if interface == "newer" else older
    adaptive = name.startswith("adaptive")
    kind = "Adaptive" if adaptive else "Fixed"
    wrapper = getattr(strategies, f"DifferentialPrivacyClientSide{kind}Clipping")
    norm = {"initial_clipping_norm": CLIP} if adaptive else {"clipping_norm": CLIP}
    noise = 1e-9 if adaptive else 0.0
    made = wrapper(averaging(interface), noise, num_sampled_clients=CLIENTS, **norm)
    found = final(interface, made, getattr(module(interface), name))
    assert found == pytest.approx(clipped(), rel=1e-5)


@both
def test_local_differential_privacy_clips_and_adds_noise(interface: str) -> None:
    made = module(interface).LocalDpMod
    plain = final(interface, averaging(interface), made(CLIP, 0.0, 1.0, 0.1))
    assert plain == pytest.approx(clipped(), rel=1e-5)
    noisy = made(CLIP, 1.0, 2.0, 0.1)
    first, again = (final(interface, averaging(interface), noisy) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    noise = first - plain
    sigma = np.sqrt(2 * np.log(1.25 / 0.1)) / 2.0 / np.sqrt(CLIENTS)
    assert 0.3 * sigma < noise.std() < 2 * sigma


@both
@every("name", ["arrays_size_mod", "message_size_mod"])
def test_mods_that_only_look_change_nothing(interface: str, name: str) -> None:
    looked = final(interface, averaging(interface), getattr(module(interface), name))
    assert looked.tobytes() == final(interface, averaging(interface)).tobytes()


def test_the_page_names_every_mod() -> None:
    every = {name for each in (newer_mods, older_mods) for name in dir(each) if name[0] != "_"}
    rows = set(re.findall(r"^\| `(\w*(?:_mod|Mod))` \|", PAGE.read_text(), re.MULTILINE))
    assert rows == every - NOT_MODS
