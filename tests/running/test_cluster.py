"""Runs on a cluster and in shards: the same bytes, through every fault, and nothing lost."""

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import dask
import pytest
from distributed import Client, LocalCluster
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.utils import get_mp_context

import fedsim
from fedsim.extend import RoundCheck, StopRule
from fedsim.problems.references import convex
from fedsim.results.record.folder import SUMMARY
from fedsim.results.record.lock import hold
from fedsim.running import api, cluster, staging
from fedsim.running.folder import status
from fedsim.running.run import RunProgress, environment
from fedsim.running.watching import Snapshot
from fedsim.running.workers import Known, Run
from fedsim.scenario.registries import blocks_in
from tests.cells import Cell
from tests.runs import files, small

SWEPT = small(sweep={"algorithm.censor": [0.01, 0.1]}, seeds=2)
LONG = small(sweep={"algorithm.censor": [0.01, 0.1]}, stop={"rounds": 1500})
"""Two runs that go on long enough to be seen at it."""
OTHER = small(algorithm={"kind": "gd", "step_size": "1/L"}, seeds=3, stop={"rounds": 8})

DEADLY = """
import os, signal
from typing import ClassVar, Literal
from fedsim.wire import Compressor, Contract


class Deadly(Compressor):
    '''It kills the process that it is used in.'''

    kind: Literal["deadly"] = "deadly"
    source: ClassVar[str] = "nobody"
    law: ClassVar[str] = "none"

    def compress(self, vector, rng, form):
        os.kill(os.getpid(), signal.SIGKILL)

    def longest(self, vector, payload):
        return payload.bits

    def contract(self, dimension):
        return Contract("unbiased", 1.0)
"""


GREEDY = DEADLY.replace(
    "os.kill(os.getpid(), signal.SIGKILL)",
    """held = []
        while True:
            held.append(numpy.ones(2**20))
            time.sleep(1e-3)""",
).replace("import os, signal", "import time, numpy")
"""It takes memory until it is killed."""


TWO_DEATHS = {
    "distributed.scheduler.allowed-failures": 1,
    "distributed.deploy.lost-worker-timeout": "1000 days",
}
"""For a cluster: a task is given up when its second worker has died, a worker's nanny never is."""

IMPORTED = ["distributed", "fedsim.running.cluster", "pint", "sklearn.datasets"]
"""What a worker has loaded when it has made a run."""


@pytest.fixture(scope="module")
def forked() -> Iterator[None]:
    """Let workers be copies of a process that has what they import, which takes seconds each.

    Those of fedsim's own local clusters are processes from nothing: two tests below have some.
    """
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        # Dask would have it import all that it can use itself.
        get_mp_context().set_forkserver_preload(IMPORTED)
        yield


@pytest.fixture(scope="module")
def client(forked: None) -> Iterator[Client]:
    """Two workers of one thread each; a task is given up when its second worker has died."""
    with (
        dask.config.set(TWO_DEATHS),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="1 GB"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def blind(client: Client) -> Iterator[None]:
    """Let workers not see the folder that the runs go to, as on other machines."""

    def hide() -> None:
        staging.Place.seen = staging.Place.is_here  # type: ignore[attr-defined]
        staging.Place.is_here = property(lambda _: False)  # type: ignore[assignment,method-assign]

    def show() -> None:
        staging.Place.is_here = staging.Place.seen  # type: ignore[attr-defined,method-assign]

    client.run(hide)
    yield
    client.run(show)


@pytest.fixture(scope="module", params=[SWEPT, OTHER], ids=["swept", "other"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A scenario, and its runs made in turn."""
    made = fedsim.run(request.param, out=tmp_path_factory.mktemp("whole"))
    return request.param, files(made.folder)


@pytest.mark.slow
def test_processes_a_cluster_and_shards_write_the_same_bytes(
    whole: Any, client: Client, tmp_path: Path
) -> None:
    scenario, written = whole
    if scenario is SWEPT:  # processes take their time to begin, whatever they make
        fedsim.run(scenario, out=tmp_path / "jobs", jobs=2)
        assert files(tmp_path / "jobs") == written
    seen: list[RunProgress] = []
    made = fedsim.run(
        scenario, out=tmp_path / "dask", executor=client.get_executor(), watch=seen.append
    )
    assert files(tmp_path / "dask") == written
    assert sum(each.ended for each in seen) == len(made.runs)
    for number in (3, 1, 2):
        fedsim.run(scenario, out=tmp_path / "shards", shard=f"{number}/3")
    assert files(tmp_path / "shards") == written


@pytest.mark.slow
def test_where_no_worker_sees_the_folder_runs_come_back_and_are_kept(
    whole: Any, client: Client, blind: None, tmp_path: Path
) -> None:
    scenario, written = whole
    executor = client.get_executor()
    fedsim.run(scenario, out=tmp_path, executor=executor)
    assert files(tmp_path) == written
    ages = {path: path.stat().st_mtime_ns for path in tmp_path.rglob(SUMMARY)}
    shutil.rmtree(tmp_path / next(iter(ages)).parent)
    fedsim.run(scenario, out=tmp_path, executor=executor)
    assert files(tmp_path) == written
    again = {path: path.stat().st_mtime_ns for path in tmp_path.rglob(SUMMARY)}
    assert len([path for path in ages if again[path] != ages[path]]) == 1


@pytest.mark.slow
def test_what_a_worker_made_when_it_was_killed_is_made_by_another(
    client: Client, tmp_path: Path
) -> None:
    pids, killed = client.run(os.getpid), threading.Event()
    seen: list[RunProgress] = []

    def watch(reached: RunProgress) -> None:
        seen.append(reached)
        if not reached.ended and not killed.is_set():
            killed.set()
            os.kill(pids[reached.worker], signal.SIGKILL)

    fedsim.run(LONG, out=tmp_path / "out", executor=client.get_executor(), watch=watch)
    assert killed.is_set()
    assert any(each.round and not each.ended for each in seen), "they tell how far they are"
    alone = fedsim.run(LONG, out=tmp_path / "alone").folder
    assert files(tmp_path / "out") == files(alone)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["processes", "cluster", "cluster's memory"])
def test_a_run_that_kills_its_worker_is_named_and_the_others_are_made(
    way: str, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "deadly.py").write_text(GREEDY if way == "cluster's memory" else DEADLY)
    scenario = small(
        variants={"deadly": {"wire": {"values": "float64", "up": {"compressor": "deadly"}}}},
        stop={"rounds": 5},
    )
    told: list[str] = []
    blocks = blocks_in([tmp_path / "deadly.py"])
    options: dict[str, Any] = (
        {"jobs": 2} if way == "processes" else {"executor": client.get_executor()}
    )
    with pytest.raises(fedsim.RunError, match=r"^deadly, seed 1: .* died"):
        fedsim.run(
            scenario,
            out=tmp_path / "out",
            blocks=blocks,
            tell=lambda note: told.append(str(note)),
            **options,
        )
    assert (tmp_path / "out/base/seed-1" / SUMMARY).exists()
    assert not (tmp_path / "out/deadly/seed-1" / SUMMARY).exists()
    assert len([each for each in told if "seed 1 has failed: " in each]) == 1


def test_who_waits_at_a_worker_that_dies_is_not_given_up_for_it(
    forked: None, tmp_path: Path
) -> None:
    """The only worker has two runs, of which the first kills it: it dies twice of that one."""
    (tmp_path / "deadly.py").write_text(DEADLY)
    deadly = {"wire": {"values": "float64", "up": {"compressor": "deadly"}}, "stop": {"rounds": 9}}
    scenario = small(
        variants={"deadly": deadly, "fine": {"algorithm": {"step_size": "0.5/L"}}},
        stop={"rounds": 5},  # what may be longer comes first
    )
    with (
        dask.config.set(TWO_DEATHS),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as only,
        pytest.raises(fedsim.RunError, match=r"^deadly, seed 1: its workers died"),
    ):
        fedsim.run(
            scenario,
            out=tmp_path / "out",
            blocks=blocks_in([tmp_path / "deadly.py"]),
            executor=only.get_executor(),
        )
    for name in ("base", "fine"):
        assert (tmp_path / f"out/{name}/seed-1" / SUMMARY).exists()


@pytest.mark.slow
def test_a_worker_of_a_local_cluster_comes_back_however_often_it_dies(tmp_path: Path) -> None:
    """Dask gives up a worker that is away when the timeout after an earlier death has passed."""
    (tmp_path / "deadly.py").write_text(DEADLY)
    deadly = {"wire": {"values": "float64", "up": {"compressor": "deadly"}}}
    scenario = small(variants={"deadly": deadly}, stop={"rounds": 5})
    with (
        dask.config.set(TWO_DEATHS | {"distributed.deploy.lost-worker-timeout": "50ms"}),
        pytest.raises(fedsim.RunError, match=r"^deadly, seed 1: its workers died"),
    ):
        fedsim.run(
            scenario,
            out=tmp_path / "out",
            blocks=blocks_in([tmp_path / "deadly.py"]),
            cluster="local:1",
        )
    assert (tmp_path / "out/base/seed-1" / SUMMARY).exists()


@pytest.mark.parametrize("way", ["in turn", "cluster"])
def test_one_run_that_fails_does_not_end_the_others(
    way: str, client: Client, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "in turn": {},
        "cluster": {"executor": client.get_executor()},
    }[way]
    scenario = small(sweep={"algorithm.censor": [0.01, 0.1]}, stop={"rounds": 3})
    (tmp_path / "censor-0.01").write_text("where a folder should go")
    with pytest.raises(
        fedsim.OutputError, match=r"cannot write .*censor-0.01.*: (Not a dir|it is a file)"
    ):
        fedsim.run(scenario, out=tmp_path, **options)
    assert (tmp_path / "censor-0.1/seed-1" / SUMMARY).exists()
    (tmp_path / "censor-0.01").unlink()
    assert fedsim.run(scenario, out=tmp_path).summary["status"].tolist() == ["done"] * 2


def test_an_optimum_that_is_known_here_is_not_looked_for_elsewhere(
    client: Client, tmp_path: Path
) -> None:
    def forget() -> str:
        convex.kept, convex._solve = convex._solve, None  # type: ignore[assignment,attr-defined]
        before, os.environ["FEDSIM_CACHE"] = os.environ["FEDSIM_CACHE"], os.devnull
        return before

    def remember(cache: str) -> None:
        convex._solve, os.environ["FEDSIM_CACHE"] = convex.kept, cache  # type: ignore[attr-defined]

    scenario = SWEPT | {"seeds": 1, "seed": 77}
    cache = next(iter(client.run(forget).values()))
    try:
        fedsim.run(scenario, out=tmp_path / "sent", executor=client.get_executor())
    finally:
        client.run(remember, cache)
    assert files(tmp_path / "sent") == files(fedsim.run(scenario, out=tmp_path / "alone").folder)


def test_a_notebook_shows_how_far_runs_elsewhere_are(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell()
    monkeypatch.setattr(api, "in_notebook", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=cell.display))
    fedsim.run(LONG, out=tmp_path, executor=client.get_executor())
    assert cell.shares[-1] == 100
    assert set(cell.shares) - {0, 50, 100}, "while they go on"
    assert any("seed" in line for line in cell.lines)


class Never(StopRule):
    """It ends no run."""

    kind: Literal["never"] = "never"

    def watch(self) -> RoundCheck:
        return lambda _: ""


def test_a_class_that_was_typed_in_is_refused(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Never, "__module__", "__main__")
    scenario = small(stop={"rounds": 5, "never": {}})
    with pytest.raises(fedsim.BlockError, match="Never is of the script or was typed in"):
        fedsim.run(scenario, out=tmp_path, blocks=[Never], executor=client.get_executor())


def test_an_error_of_a_task_is_not_taken_for_a_broken_connection(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise FileNotFoundError("no such file on this machine")

    monkeypatch.setattr(cluster, "_make_on_worker", fail)
    said = "^no worker can make runs: FileNotFoundError: no such file on this machine$"
    with pytest.raises(fedsim.RunError, match=said):
        fedsim.run(OTHER, out=tmp_path, executor=client.get_executor())


@pytest.mark.parametrize(
    ("state", "error", "cut_off"),
    [
        ("error", OSError(), False),
        ("error", FutureCancelledError("a key", "of the task"), False),
        ("cancelled", FutureCancelledError("a key", "scheduler-connection-lost"), True),
        ("finished", OSError(), True),
        ("lost", CommClosedError(), True),
        ("finished", ValueError(), False),
    ],
)
def test_a_connection_is_broken_where_the_task_itself_has_no_error(
    client: Client, state: str, error: Exception, *, cut_off: bool
) -> None:
    engine = cluster.engine_of(client.get_executor())
    assert engine._is_cut_off(SimpleNamespace(status=state), error) == cut_off


def test_a_scheduler_that_is_gone_is_named() -> None:
    gone: Any = SimpleNamespace(status="closed")  # as Dask leaves a client that does not reconnect
    engine = cluster.DaskEngine(gone, client=gone, address="tcp://there:8786")
    with pytest.raises(BrokenExecutor, match=r"^the scheduler tcp://there:8786 is gone$"):
        engine._submit(b"", Known(Run(0, 1)))


def test_a_client_that_is_closed_is_refused(client: Client, tmp_path: Path) -> None:
    with Client(client.scheduler.address, set_as_default=False) as own:
        executor = own.get_executor()
    with pytest.raises(fedsim.RunError, match=r"^the Dask client of this executor is closed$"):
        fedsim.run(OTHER, out=tmp_path, executor=executor)


def test_a_worker_with_other_versions_is_named_and_makes_nothing(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = environment()
    monkeypatch.setattr(cluster, "environment", lambda: here | {"numpy": "1.0"})
    told = rf"process \d+, would make other runs: numpy is {here['numpy']} there, 1.0 here"
    with pytest.raises(fedsim.RunError, match=told):
        fedsim.run(SWEPT, out=tmp_path, executor=client.get_executor())
    assert not list(tmp_path.rglob(SUMMARY))


def test_what_goes_on_elsewhere_is_seen_and_how_long_it_took(
    client: Client, blind: None, tmp_path: Path
) -> None:
    seen: list[Snapshot] = []

    def watch(reached: RunProgress) -> None:
        if reached.round and not reached.ended:
            seen.append(Snapshot.of(status(tmp_path)))

    fedsim.run(LONG, out=tmp_path, executor=client.get_executor(), watch=watch)
    assert any(run.round for each in seen for run in each.running.values())
    assert all(each.seconds > 0.05 for each in status(tmp_path).variants), "so do 1,500 rounds"
    assert not (tmp_path / staging.MAKING).exists()


def test_shards_share_a_folder_and_nobody_else_does(tmp_path: Path) -> None:
    def watch(reached: RunProgress) -> None:
        if reached.ended:
            fedsim.run(SWEPT, out=tmp_path, shard="2/2")
            with pytest.raises(fedsim.OccupiedError, match="in use"):
                fedsim.run(SWEPT, out=tmp_path)
            for name, (changes, difference) in others.items():
                with pytest.raises(fedsim.OccupiedError, match=difference):
                    fedsim.run(SWEPT | changes, out=tmp_path, shard="2/2")
                refused.append(name)

    names = [variant.name for variant in fedsim.load(SWEPT).variants]
    others: dict[str, tuple[dict[str, Any], str]] = {
        "edited": ({"stop": {"rounds": 7}}, f"another state of {names[0]}, "),
        "seeds": ({"seeds": 7}, "other seeds"),
        "baseline": ({"baseline": names[0]}, f"the baseline none instead of {names[0]}"),
    }
    refused = list[str]()
    result = fedsim.run(SWEPT, out=tmp_path, shard="1/2", watch=watch)
    assert {*refused} == {*others}
    assert len(result.runs) == 2
    assert len(list(tmp_path.rglob(SUMMARY))) == 4
    with hold(tmp_path), pytest.raises(fedsim.OccupiedError, match="in use"):
        fedsim.run(SWEPT, out=tmp_path, shard="1/2")


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "-1/2", "1/0"])
def test_a_shard_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(fedsim.DataError, match="expected K/N"):
        fedsim.run(SWEPT, out=tmp_path, shard=text)


def test_without_dask_it_is_said_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(fedsim.DataError, match=r"pip install '\.\[dask\]'"):
        fedsim.run(SWEPT, out=tmp_path, cluster="local:2")


@pytest.mark.parametrize("where", ["local:0", "local:x", "nothing"])
def test_a_cluster_that_is_none_is_refused(where: str, tmp_path: Path) -> None:
    with pytest.raises(fedsim.DataError, match="local:N"):
        fedsim.run(SWEPT, out=tmp_path / "out", cluster=where)
