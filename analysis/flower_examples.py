"""Do Flower's example apps end with the same files here as under Flower's own simulation?

    git clone --depth 1 https://github.com/adap/flower
    pip install 'flwr[simulation]' flwr-datasets xgboost torchvision
    python analysis/flower_examples.py flower/examples [NAME ...]

The apps are as published: their `pyproject.toml` says what to run. Three things are done outside of
them. Data of a hub are replaced by data of scikit-learn, so that nothing is downloaded. Global
generators of random numbers are seeded before each call of an app, by client, round and kind of
message: Flower leaves them to the process that happens to take the message. Replies are handed to
the server in the order of the clients: Flower's order is that of a set of random names, and a sum
of floating-point numbers depends on it. The files that both ways write, the final models, are
compared byte by byte. Exits with 1 if some differ.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any
from zlib import crc32

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.config import flatten_dict
from flwr.serverapp import Grid, ServerApp

CLIENTS = 3
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "quickstart-numpy": {},
    "quickstart-sklearn": {"num-server-rounds": 5},
    "quickstart-xgboost": {"fraction-train": 1.0, "fraction-evaluate": 1.0, "params.nthread": 1},
    "quickstart-pytorch": {},
}
"""Apps that need neither a GPU nor a large model, and settings as `flwr run --run-config` has."""

HERE, FOLDER = Path(__file__), "FLOWER_EXAMPLE"
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

Columns = dict[str, list[Any]]


# Data in place of those of a hub.


def iris() -> Columns:
    """Return the rows of hitorilabs/iris."""
    from sklearn.datasets import load_iris

    data = load_iris()
    names = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    return dict(zip(names, data.data.T.tolist(), strict=True)) | {"species": data.target.tolist()}


def higgs() -> Columns:
    """Return rows of the form of jxie/higgs."""
    from sklearn.datasets import make_classification

    X, y = make_classification(3000, 28, n_informative=12, class_sep=0.6, random_state=0)
    return {"inputs": X.tolist(), "label": y.tolist()}


def cifar(part: str) -> Columns:
    """Return digits as images of the form of uoft-cs/cifar10."""
    from PIL import Image
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    rows = order[:1200] if part == "train" else order[1200:]
    grey = np.kron(X[rows].reshape(-1, 8, 8) * 255 / 16, np.ones((4, 4))).astype(np.uint8)
    images = [Image.fromarray(np.stack([each, 255 - each, each], axis=2)) for each in grey]
    return {"img": images, "label": y[rows].tolist()}


STAND_INS: Mapping[str, Callable[[str], Columns]] = {
    "hitorilabs/iris": lambda _: iris(),
    "jxie/higgs": lambda _: higgs(),
    "uoft-cs/cifar10": cifar,
}


def load_dataset(path: str, *_: object, split: str | None = None, **__: object) -> object:
    """Stand in for the function of `datasets`."""
    import datasets  # type: ignore[import-not-found,unused-ignore]

    if split is not None:
        return datasets.Dataset.from_dict(STAND_INS[path](split))
    parts = ("train", "test") if path.endswith("cifar10") else ("train",)
    made = {part: datasets.Dataset.from_dict(STAND_INS[path](part)) for part in parts}
    return datasets.DatasetDict(made)


def stand_in() -> None:
    """Put `load_dataset` in the place of that of `datasets`, if it is installed."""
    try:
        import datasets
    except ImportError:
        return
    datasets.load_dataset = datasets.load.load_dataset = load_dataset


# The apps, which the processes of both ways import from here.


def seed(*key: object) -> None:
    """Seed all global generators."""
    number = crc32(repr(key).encode())
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002 - the one that apps draw from
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)


class SeededClients(ClientApp):  # type: ignore[misc,unused-ignore]  # Flower's has no types
    """A ClientApp before each call of which generators are seeded."""

    def __init__(self, app: ClientApp) -> None:
        super().__init__()
        self._app = app

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer a message."""
        config: Mapping[str, Any] = message.content.config_records.get("config", {})
        turn = config.get("server-round", message.metadata.group_id)
        seed(context.node_config["partition-id"], str(turn), message.metadata.message_type)
        return self._app(message, context)


def in_order(grid: Grid) -> Grid:
    """Let a grid name all nodes, and return replies, in the order of the clients.

    Flower's nodes connect one by one while the server begins, and a strategy takes its share of
    those that it finds. So the server waits until all are there.
    """
    nodes, exchange = grid.get_node_ids, grid.send_and_receive

    def get_node_ids() -> list[int]:
        while len(found := sorted(nodes())) < CLIENTS:
            sleep(0.01)
        return found

    def send_and_receive(messages: Iterable[Message], **settings: Any) -> list[Message]:
        replies = exchange(messages, **settings)
        return sorted(replies, key=lambda reply: reply.metadata.src_node_id)

    changed: Any = grid
    changed.get_node_ids = get_node_ids
    changed.send_and_receive = send_and_receive
    return grid


class SeededServer(ServerApp):  # type: ignore[misc,unused-ignore]  # likewise
    """A ServerApp before whose `main` generators are seeded, and whose replies are in order."""

    def __init__(self, app: ServerApp) -> None:
        super().__init__()

        @self.main()
        def main(grid: Grid, context: Context) -> None:
            seed("server")
            app(in_order(grid), context)


def example(folder: Path) -> tuple[Mapping[str, str], dict[str, Any]]:
    """Return the names of an example's apps, and its settings."""
    found = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    app = found["tool"]["flwr"]["app"]
    return app["components"], flatten_dict(app.get("config", {}))


def load(name: str) -> ClientApp | ServerApp | None:
    """Return an app of the example that the environment names; None if it names none."""
    if FOLDER not in os.environ:
        return None
    folder = Path(os.environ[FOLDER])
    sys.path.insert(0, str(folder))
    stand_in()
    module, _, attribute = example(folder)[0][name].partition(":")
    found = getattr(import_module(module), attribute)
    return (SeededClients if name == "clientapp" else SeededServer)(found)


client = load("clientapp")
server = load("serverapp")


# Both ways to run an example.


def by_flower(folder: Path, settings: Mapping[str, Any]) -> None:
    """Run an example by Flower's simulation, as `flwr run` does."""
    from flwr.simulation import run_simulation as simulation
    from flwr.supercore.run import Run
    from flwr.supercore.telemetry import EventType

    numbers = count(1000)  # of nodes, in the order of the clients; Flower draws them at random
    state = import_module("flwr.server.superlink.linkstate.in_memory_linkstate")
    vars(state)["generate_rand_int_from_bytes"] = lambda *_, **__: next(numbers)
    module = import_module(simulation.__module__)
    run = Run.create_empty(run_id=1)
    run.primary_task_id, run.federation_id = 1, module.NOOP_FEDERATION_ID
    run.override_config = dict(settings)
    module.TaskIdentity.task_id = module.TaskIdentity.run_id = 1
    module.TaskIdentity.node_id = module.SUPERLINK_NODE_ID
    config = {**example(folder)[1], **settings}
    module._run_simulation(  # noqa: SLF001 - the public one takes no settings
        num_supernodes=CLIENTS,
        exit_event=EventType.PYTHON_API_RUN_SIMULATION_LEAVE,
        client_app_attr=f"{HERE.stem}:client",
        server_app_attr=f"{HERE.stem}:server",
        server_app_context=Context(1, 0, {}, RecordDict(), config),
        app_dir=str(folder),
        run=run,
        is_app=True,
        backend_config={
            "init_args": {"num_cpus": 1, "object_store_memory": 200_000_000},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


def by_fedsim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Run an example in a simulated network."""
    import fedsim
    from fedsim.flower import app, method

    config = {**example(folder)[1], **settings}
    cost = {"operations": 1e8}
    clients: Any = client
    loss = app(clients, clients=CLIENTS, cost=cost, run_config=config, evaluated_by="nobody")
    result = fedsim.run(
        {
            "problem": {"loss": loss},
            "algorithm": method(server),
            "fleet": [{"count": CLIENTS, "device": "pi-4", "radio": "wifi"}],
            "stop": {"rounds": config["num-server-rounds"]},
        }
    )
    print(result.summary[["status", "rounds", "t", "joules"]].to_string())


WAYS = {"flower": by_flower, "fedsim": by_fedsim}


@contextmanager
def files_of(way: str, folder: Path, settings: Mapping[str, Any]) -> Iterator[dict[str, bytes]]:
    """Run an example in a process of its own, and yield the files that it has written."""
    own = {FOLDER: str(folder.resolve()), "RAY_worker_niceness": "0", **QUIET}
    paths = [str(HERE.resolve().parent), str(folder.resolve()), os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory() as written:
        subprocess.run(
            [sys.executable, str(HERE.resolve()), way, str(folder.resolve()), json.dumps(settings)],
            cwd=written,
            env={**os.environ, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            check=True,
        )
        yield {each.name: each.read_bytes() for each in Path(written).iterdir() if each.is_file()}


def compare(folder: Path, settings: Mapping[str, Any]) -> tuple[bool, list[str]]:
    """Return whether both ways have written the same files, and which."""
    with files_of("flower", folder, settings) as one, files_of("fedsim", folder, settings) as other:
        return one == other and bool(one), sorted(one)


def main(arguments: Sequence[str]) -> int:
    """Compare examples, and return 1 if some differ."""
    if arguments[0] in WAYS:
        way, folder, settings = arguments
        WAYS[way](Path(folder), json.loads(settings))
        return 0
    examples, *names = arguments
    made = {}
    for name in names or EXAMPLES:
        same, files = compare(Path(examples) / name, EXAMPLES.get(name, {}))
        made[name] = f"| `{name}` | {', '.join(files)} | {'the same bytes' if same else 'differ'} |"
    print("| example | files | both ways |\n|---|---|---|", *made.values(), sep="\n")
    return int(any("differ" in line for line in made.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
