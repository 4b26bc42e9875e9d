"""`fedsim conformance`: the checks of blocks from a file, with their parameters from a scenario."""

import re
from pathlib import Path
from unittest.mock import patch

import pytest

from fedsim import run
from fedsim.addons.conformance.algorithms import algorithm_rows, check_algorithm
from fedsim.addons.conformance.user_blocks import rows_by_block
from fedsim.scenario.registries import blocks_in
from tests.runs import small

from .files import COMPRESSOR, DEVICE, LOSS, NAMED, SPLIT
from .test_commands import invoke, scenario, written

__all__ = ["scenario"]

METHOD = '''\
from typing import Literal

from fedsim.algorithms import GradientDescent


class Plain(GradientDescent):
    """Gradient descent by another name."""

    kind: Literal["plain"] = "plain"
'''


def test_blocks_that_keep_their_promises(tmp_path: Path) -> None:
    result = invoke("conformance", written(tmp_path, f"{COMPRESSOR}\n\n{LOSS}\n\n{SPLIT}"))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    for words in ("kept the contract holds", "the gradient agrees with finite", "Dealt {kind"):
        assert words in said
    assert re.search(r"mine\.py: all \d+ checks passed$", said)


def test_one_that_breaks_a_promise_ends_with_code_1(tmp_path: Path) -> None:
    mine = written(tmp_path, COMPRESSOR.replace("vector * self.stride", "vector"))
    result = invoke("conformance", mine)
    assert result.exit_code == 1
    assert "broken" in result.stdout
    assert re.search(r": \d+ of \d+ checks failed$", result.stdout.strip())
    assert "Traceback" not in result.output
    assert "biased" in " ".join(result.stdout.split())


def test_parameters_come_from_the_scenario(scenario: Path, tmp_path: Path) -> None:
    mine = written(tmp_path, COMPRESSOR.replace("stride: int = 2", "stride: int"))
    without = invoke("conformance", mine)
    assert without.exit_code == 2
    assert " ".join(without.stderr.split()) == (
        "EveryOther: stride has no default. Pass a scenario that sets it: fedsim conformance"
        " mine.py study.yaml"
    )
    named = "wire.up.compressor={kind: every-other, stride: 5}"
    result = invoke("conformance", mine, scenario, "--set", named)
    assert result.exit_code == 0, result.output
    assert "stride: 5" in result.stdout


def test_a_default_that_its_class_refuses_is_no_missing_default(tmp_path: Path) -> None:
    wrong = COMPRESSOR.replace("stride: int = 2", "stride: int = 0").replace(
        '= "every-other"', '= "every-ohter"'
    )
    result = invoke("conformance", written(tmp_path, wrong))
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "the default of kind, \"every-ohter\", is refused: it should be 'every-other'" in said
    assert "no default" not in said


@pytest.mark.slow
def test_a_method_is_let_run_in_every_world(tmp_path: Path) -> None:
    result = invoke("conformance", written(tmp_path, METHOD))
    assert result.exit_code == 0, result.output
    assert "messages lost for good" in result.stdout
    assert "failed" not in result.stdout
    assert "refused: fedsim does not run the method in this world" in result.stdout


def test_a_method_that_never_commits_is_tried_in_one_world(tmp_path: Path) -> None:
    serve = (
        "        w = server.initial\n        while True:\n"
        "            await server.exchange(Iterate(server.pack(w)))\n"
    )
    source = METHOD.replace(
        "algorithms import", "algorithms.censored import Iterate\nfrom fedsim.algorithms import"
    )
    mine = written(tmp_path, f"{source}\n    async def serve(self, server):\n{serve}")
    result = invoke("conformance", mine)
    assert result.exit_code == 1, result.output
    said = " ".join(result.stdout.split())
    assert said.count("without a commit; call server.commit(model) once per round") == 1
    assert "fails without difficulties, so it is not tried with them" in said
    assert "messages lost for good" not in said


@pytest.mark.slow
def test_rows_are_made_one_at_a_time() -> None:
    """A row is there before the next check is made, so that the command prints it at once."""
    scenario = {"problem": small()["problem"], "algorithm": {"kind": "gd", "step_size": "1/L"}}
    rows = algorithm_rows(scenario, rounds=2)
    made: list[str] = []
    with patch("fedsim.addons.conformance.algorithms.run", wraps=run) as runs:
        for number in (1, 2, 3):
            made.append(next(rows)["world"])
            assert runs.call_count == number
    table = check_algorithm(scenario, rounds=2)
    assert made == table["world"][:3].tolist()


def test_a_step_size_without_a_default_is_a_safe_one(tmp_path: Path) -> None:
    method = METHOD.replace('"plain"\n', '"plain"\n    step_size: float\n')
    (model,) = blocks_in([written(tmp_path, method)])
    title, _ = next(rows_by_block([model]))
    assert re.match(r"Plain \{kind: plain, step_size: [0-9.]+", title)


RADIO = '''\
from typing import Literal

from fedsim.physics.radios import ConstantRate, Draw, PacketRadio, Rates


class Cable(Draw, PacketRadio):
    """A cable, which is not written to its end."""

    kind: Literal["cable"] = "cable"
    latency: float = 0.0

    def rates(self, signals):
        return Rates(ConstantRate(1e6), ConstantRate(1e6 / (self.latency - 0.0)))
'''


def test_what_a_block_raises_is_a_row_with_its_line(tmp_path: Path) -> None:
    result = invoke("conformance", written(tmp_path, RADIO))
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    said = " ".join(result.stdout.split())
    assert "ZeroDivisionError: float division by zero" in said
    assert "line 13, in rates" in said
    assert " kept " in said


def test_a_device_has_its_checks(scenario: Path, tmp_path: Path) -> None:
    command = "conformance", written(tmp_path, DEVICE), scenario, "--set", NAMED["device"][1]
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    assert "work draws no less than idling" in " ".join(result.stdout.split())
    turned = DEVICE.replace("return max(", "return 1 - max(")
    result = invoke("conformance", written(tmp_path, turned), *command[2:])
    assert result.exit_code == 1
    assert "samples take -" in " ".join(result.stdout.split())


def test_without_a_scenario_there_is_nothing_to_set(tmp_path: Path) -> None:
    mine = written(tmp_path, METHOD)
    result = invoke("conformance", mine, "--set", "algorithm.step_size=0.1")
    assert result.exit_code == 2
    assert "got --set without a scenario; name the FILE" in " ".join(result.stderr.split())


def test_broken_defaults_lead_to_a_scenario(tmp_path: Path) -> None:
    mine = written(tmp_path, COMPRESSOR.replace("vector * self.stride", "vector"))
    result = invoke("conformance", mine)
    assert result.exit_code == 1
    assert "defaults were checked" in result.stderr
