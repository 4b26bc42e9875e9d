"""Where a decision might have been another, nothing is priced, and the reason is named."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim import RepricingError
from fedsim.addons.repricing.replay import ReplayedMethod, replay_message
from fedsim.algorithms import GradientDescent
from fedsim.algorithms.censored import Innovation
from fedsim.cli import app
from fedsim.core.errors import DataError
from fedsim.core.ports import Client, Silence
from fedsim.results.record.folder import SUMMARY
from fedsim.results.record.manifest import MANIFEST
from fedsim.results.record.studies import study_in

from .prices import differing, small, unlike

WIFI = "fleet.0.radio=wifi"


def refusal(
    folder: Path, source: dict[str, Any], overrides: Sequence[str], **options: Any
) -> list[tuple[str, str]]:
    """Return the keys and the texts with which a repricing is refused, and that it left nothing."""
    fedsim.run(source, out=folder / "before", **options)
    with pytest.raises(RepricingError) as error:
        fedsim.reprice(folder / "before", overrides, folder / "priced", **options)
    assert not (folder / "priced").exists()
    return [(fault.key, fault.message) for fault in error.value.faults]


TRAINING = {
    "algorithm.censor=0.2": ("algorithm.censor", "got 0.2"),
    "problem.loss.l2=0.2": ("problem.loss.l2", "got 0.2"),
    "wire.values=float64": ("wire.values", "float64"),
    "participation={kind: uniform, count: 2}": (
        "participation.kind",
        'got "uniform", but the run had "full"',
    ),
    "silence={kind: deadline, after: 30 s}": (
        "silence.kind",
        'got "deadline", but the run had "beacon"',
    ),
    "seed=3": ("seed", "got 3, but the run had 1"),
    "seeds=3": ("seeds", "got 3"),
    "measures=[{kind: sparsity}]": ("measures", "got a list"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    fedsim.run(small(rounds=3), out=folder)
    return folder


@pytest.mark.parametrize("override", TRAINING)
def test_what_training_sees_cannot_change(override: str, made: Path, tmp_path: Path) -> None:
    with pytest.raises(RepricingError) as error:
        fedsim.reprice(made, [override, WIFI], tmp_path)
    key, seen = TRAINING[override]
    fault = error.value.faults[0]
    assert (fault.where, fault.key) == (f"--set {override}", key)
    assert seen in fault.message
    assert "needs training again: fedsim run" in fault.message
    assert not list(tmp_path.iterdir())


TIMES: dict[str, dict[str, Any]] = {
    "silence.kind": {"silence": {"kind": "deadline", "after": "60 s"}},
    "participation.deadline": {"participation": {"kind": "full", "deadline": "60 s"}},
    "participation.quorum": {"participation": {"kind": "full", "quorum": "50 %"}},
    "participation.over": {"participation": {"kind": "uniform", "count": 3, "over": 1.5}},
    "participation.least_charge": {"participation": {"kind": "full", "least_charge": "30 %"}},
    "participation.kind": {"participation": {"kind": "asynchronous", "buffer": 2}},
}


@pytest.mark.filterwarnings("ignore:.*convergence theory of:fedsim.TheoryWarning")
@pytest.mark.parametrize("key", TIMES)
def test_nothing_may_close_a_round_before_its_end(key: str, tmp_path: Path) -> None:
    kind = "fedbuff" if key == "participation.kind" else "gd"
    ((seen, _),) = refusal(tmp_path, small(kind, 3) | TIMES[key], [WIFI])
    assert seen == key


def test_nobody_may_be_away(tmp_path: Path) -> None:
    away = "{kind: markov, on: 1 h, off: 1 min}"
    seen = refusal(tmp_path, small("gd", 3), [f"fleet.1.availability={away}", WIFI])
    assert [key for key, _ in seen] == ["fleet.1.availability.kind"]


def test_the_fleet_keeps_its_size(made: Path, tmp_path: Path) -> None:
    with pytest.raises(RepricingError, match="got 6 clients, but the log has 5"):
        fedsim.reprice(made, ["fleet.0.count=4"], tmp_path)


def test_every_reason_is_named_at_once(made: Path, tmp_path: Path) -> None:
    with pytest.raises(RepricingError) as error:
        fedsim.reprice(made, ["seed=2", "fleet.0.count=4", "participation.quorum=50 %"], tmp_path)
    keys = [fault.key for fault in error.value.faults]
    assert keys == ["seed", "participation.quorum", "participation.quorum", "fleet"]


def test_one_world_at_a_time(made: Path, tmp_path: Path) -> None:
    with pytest.raises(RepricingError, match="leave variants and sweep out"):
        fedsim.reprice(made, ["variants={more: {fleet: []}}"], tmp_path)


def test_what_would_go_on_needs_training(tmp_path: Path) -> None:
    source = small("gd") | {"stop": {"rounds": 50, "energy": "3 J"}}
    free = [f"fleet.{number}.{part}=ideal" for number in (0, 1) for part in ("device", "radio")]
    ((key, text),) = refusal(tmp_path, source, free)
    assert key == "stop.energy"
    assert "the log ends after round" in text
    assert "this run would continue" in text


def test_a_round_that_the_clock_has_cut_off_cannot_be_begun_again(tmp_path: Path) -> None:
    """Not even where nothing has changed: the log has no more than the beginning of it."""
    source = small("gd") | {"stop": {"rounds": 500, "time": "20 ms"}}
    ((key, text),) = refusal(tmp_path, source, [])
    assert key == "stop.time"
    assert "the log ends in the middle of round" in text
    assert "would continue" not in text


def test_a_battery_that_is_empty_stops_the_repricing(tmp_path: Path) -> None:
    battery = "fleet.0.battery={capacity: 0.2 mWh}"
    ((key, text),) = refusal(tmp_path, small("gd"), [battery])
    assert key == "fleet.0.battery"
    assert "client-" in text


def test_a_log_in_which_batteries_ran_empty_is_refused(tmp_path: Path) -> None:
    source = small("gd")
    first, second = source["fleet"]
    source["fleet"] = [first | {"battery": {"capacity": "0.2 mWh"}}, second]
    fedsim.run(source, out=tmp_path / "before")
    with pytest.raises(DataError, match=r"was left out at .*charge"):
        fedsim.reprice(tmp_path / "before", ["fleet.0.battery=null"], tmp_path / "priced")


class Looking(GradientDescent):
    kind: Literal["looking"] = "looking"  # type: ignore[assignment]

    async def handle(self, client: Client[Any], message: Any) -> Innovation | Silence:
        assert client.now >= 0.0
        return await super().handle(client, message)


class Glancing(GradientDescent):
    kind: Literal["glancing"] = "glancing"  # type: ignore[assignment]

    async def handle(self, client: Client[Any], message: Any) -> Innovation | Silence:
        assert client.battery is None or client.battery > 0.0
        return await super().handle(client, message)


@pytest.mark.slow
def test_a_method_must_not_look_at_the_clock(tmp_path: Path) -> None:
    source = small("gd", 3) | {"algorithm": {"kind": "looking", "step_size": "1/L"}}
    ((key, text),) = refusal(tmp_path, source, [WIFI], blocks=[Looking])
    assert key == "algorithm.kind"
    assert "looking, which has read the clock" in text


def test_a_method_must_not_look_at_batteries_unless_there_are_none(tmp_path: Path) -> None:
    source = small("gd", 3) | {"algorithm": {"kind": "glancing", "step_size": "1/L"}}
    ((key, _),) = refusal(tmp_path, source, ["fleet.0.battery={}"], blocks=[Glancing])
    assert key == "algorithm.kind"
    fedsim.reprice(tmp_path / "before", [WIFI], tmp_path / "priced", blocks=[Glancing])
    fedsim.run(source, out=tmp_path / "fresh", overrides=[WIFI], blocks=[Glancing])
    assert differing(tmp_path / "fresh", tmp_path / "priced") == []


class Sleeping(GradientDescent):
    kind: Literal["sleeping"] = "sleeping"  # type: ignore[assignment]

    async def handle(self, client: Client[Any], message: Any) -> Innovation | Silence:
        await asyncio.sleep(1.0)
        return await super().handle(client, message)


class Busy(GradientDescent):
    kind: Literal["busy"] = "busy"  # type: ignore[assignment]

    async def handle(self, client: Client[Any], message: Any) -> Innovation | Silence:
        w = message.theta.values
        await asyncio.gather(*[client.compute(client.oracle.value(w)) for _ in range(3)])
        return await super().handle(client, message)


def test_a_method_that_keeps_time_by_itself_is_found_out(tmp_path: Path) -> None:
    source = small("gd", 3) | {"algorithm": {"kind": "sleeping", "step_size": "1/L"}}
    fedsim.run(source, out=tmp_path / "before", blocks=[Sleeping])
    with pytest.raises(DataError, match="a replay of sleeping does not reproduce"):
        fedsim.reprice(tmp_path / "before", [WIFI], tmp_path / "priced", blocks=[Sleeping])


@pytest.mark.slow
@pytest.mark.parametrize("stop", [{"rounds": 3}, {"time": "0.5 s"}])
def test_a_method_of_one_s_own_that_does_several_things_at_once(
    stop: dict[str, Any], tmp_path: Path
) -> None:
    source = small("gd") | {"algorithm": {"kind": "busy", "step_size": "1/L"}, "stop": stop}
    overrides = [WIFI, "stop={rounds: 2}"]
    assert unlike(source, overrides, tmp_path, [Busy]) == []


def test_a_run_is_not_overwritten_by_its_own_price(made: Path) -> None:
    with pytest.raises(RepricingError, match="is the run itself"):
        fedsim.reprice(made, [WIFI], made)
    assert (made / "base/seed-1" / SUMMARY).exists()


def test_a_run_that_has_not_ended_is_refused(tmp_path: Path) -> None:
    fedsim.run(small(rounds=3), out=tmp_path / "before")
    (tmp_path / "before/base/seed-1" / SUMMARY).unlink()
    with pytest.raises(DataError, match="has not ended"):
        fedsim.reprice(tmp_path / "before", [WIFI], tmp_path / "priced")


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # of the step
def test_a_run_that_has_failed_is_refused(tmp_path: Path) -> None:
    source = small("gd", 400) | {"algorithm": {"kind": "gd", "step_size": 1e300}}
    assert fedsim.run(source, out=tmp_path / "before").summary["status"].tolist() == ["diverged"]
    with pytest.raises(DataError, match="has failed: diverged"):
        fedsim.reprice(tmp_path / "before", [WIFI], tmp_path / "priced")


def test_a_log_of_an_older_version_is_refused(tmp_path: Path) -> None:
    (run,) = fedsim.run(small(rounds=3), out=tmp_path / "before").runs
    text = (run / MANIFEST).read_text()
    (run / MANIFEST).write_text(text.replace('"schema_version": 6', '"schema_version": 5'))
    with pytest.raises(DataError, match="has schema version 5, and this fedsim reads version 6"):
        fedsim.reprice(tmp_path / "before", [WIFI], tmp_path / "priced")


def test_paths_start_where_they_are_said_to(made: Path, tmp_path: Path) -> None:
    (tmp_path / "drive.csv").write_text("0,1\n1,0.2\n3,5\n6,0\n")
    override = "fleet.0.radio={kind: lte, up_trace: {kind: csv, path: drive.csv}}"
    fedsim.reprice(made, [override], tmp_path / "priced", base=tmp_path)
    with pytest.raises(fedsim.ScenarioError, match=r"cannot read .*drive\.csv"):
        fedsim.reprice(made, [override], tmp_path / "again")


def test_the_command(made: Path, tmp_path: Path) -> None:
    command = ["reprice", str(made), "--out", str(tmp_path / "priced"), "--set"]
    done = CliRunner().invoke(app, [*command, WIFI])
    assert done.exit_code == 0
    assert "original time" in done.output
    fedsim.run(small(rounds=3), out=tmp_path / "fresh", overrides=[WIFI])
    assert differing(tmp_path / "fresh", tmp_path / "priced") == []
    refused = CliRunner().invoke(app, [*command, "algorithm.censor=0.3"])
    assert refused.exit_code == 2
    assert "These changes need a new run; a log cannot be re-priced for them:" in refused.stderr
    assert "algorithm.censor" in refused.stderr


def test_the_command_names_a_folder_without_runs(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reprice", str(tmp_path), "--set", WIFI])
    assert done.exit_code == 2
    assert "there are no runs in" in done.stderr


def test_a_client_that_was_not_in_the_original_cohort_is_refused_by_round_and_number() -> None:
    history: Any = SimpleNamespace(tasks=SimpleNamespace(received=()), visits={})
    client: Any = SimpleNamespace(round=2, id=3)

    def refuse(*said: object) -> RepricingError:
        refused.append(said)
        return RepricingError([])

    refused = list[tuple[object, ...]]()
    method = ReplayedMethod(history, (), refuse)
    with pytest.raises(RepricingError):
        asyncio.run(method.handle(client, replay_message("Model", 8)))
    assert refused == [("is sampled, but was not in the original", 2, 3)]


@pytest.mark.slow
def test_one_variant_that_is_refused_leaves_the_others(tmp_path: Path) -> None:
    """They are priced and shown; the error names the variant, its seeds and the reason."""
    source = small(rounds=3) | {
        "seeds": 2,
        "variants": {
            "timed": {"participation": {"kind": "full", "deadline": "1 h"}},
            "free": {},
            "quicker": {"wire": {"values": "float32"}},
        },
    }
    fedsim.run(source, out=tmp_path / "before")
    with pytest.raises(RepricingError) as error:
        fedsim.reprice(tmp_path / "before", [WIFI], tmp_path / "priced")
    assert error.value.title.startswith("4 of 6 runs are re-priced; the others need a new run")
    assert {fault.where for fault in error.value.faults} == {"timed, seeds 1, 2"}
    assert [fault.key for fault in error.value.faults] == ["participation.deadline"]
    kept = ("free", "quicker")
    fresh = source | {"variants": {name: source["variants"][name] for name in kept}}
    fedsim.run(fresh, out=tmp_path / "fresh", overrides=[WIFI])
    assert differing(tmp_path / "fresh", tmp_path / "priced") == []
    assert list(study_in(tmp_path / "priced").variants) == [*kept]  # type: ignore[union-attr]
    command = ["reprice", str(tmp_path / "before"), "--set", WIFI]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "again")])
    assert done.exit_code == 1  # some are priced; 2 would be that nothing began
    assert "original energy" in done.stdout
    assert "free" in done.stdout
    assert "timed, seeds 1, 2: participation.deadline" in " ".join(done.stderr.split())


def test_a_run_that_is_refused_in_its_replay_leaves_the_others(tmp_path: Path) -> None:
    """A battery that runs empty under the new prices is found there."""
    source = small(rounds=20)
    study = source | {"variants": {"long": {}, "short": {"stop": {"rounds": 1}}}}
    fedsim.run(study, out=tmp_path / "before")
    battery = "fleet.0.battery={capacity: 0.5 mWh}"
    with pytest.raises(RepricingError, match="long, seed 1: --set fleet") as error:
        fedsim.reprice(tmp_path / "before", [battery], tmp_path / "priced")
    assert error.value.title.startswith("1 of 2 runs are re-priced")
    assert list(study_in(tmp_path / "priced").variants) == ["short"]  # type: ignore[union-attr]
    assert not (tmp_path / "priced/long").exists()
