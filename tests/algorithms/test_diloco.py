"""DiLoCo and Streaming DiLoCo: the papers' loops over local steps, written once more."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedsim.addons.live.refusals import check_live
from fedsim.addons.repricing.conditions import refusals
from fedsim.algorithms import DiLoCo, ProblemInfo, StreamingDiLoCo
from fedsim.core.errors import LiveError, ParameterError, ScenarioError
from fedsim.core.ports import Array
from fedsim.problems.optimizers import SGD
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.wire import Contract
from tests.algorithms.local_loops import ROUNDS, SIZES, Local, check_near, local, shares, told
from tests.algorithms.test_local_training import RULES, sgd
from tests.tiers import every

ETA, BATCH = 0.05, 4
RULE, INNER = RULES["adamw"]
BLOCK: dict[str, Any] = {"step_size": ETA, "optimizer": RULE}
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}

Case = tuple[int, int, int, float]
"""The steps between two fragments, their number, the overlap, and the blend."""


def edges(d: int, fragments: int) -> list[slice]:
    ends = [p * d // fragments for p in range(fragments + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def keys(case: Case) -> dict[str, Any]:
    named = zip(("local_steps", "fragments", "overlap", "blend"), case, strict=True)
    return {"kind": "streaming-diloco", **BLOCK, **dict(named)}


def four_bits(change: Array) -> Array:
    """Return the nearest of sign and 2^-k, k = 0 to 6, of the largest magnitude, or 0, to each.

    That magnitude is a float32, which is not below it.
    """
    largest = np.abs(change).max()
    scale = np.float32(largest)
    if scale < largest:
        scale = np.nextafter(scale, np.float32(np.inf))
    levels = [0.0, *(float(scale) / 2**k for k in range(7))]
    nearest = [min(levels, key=lambda level: abs(abs(x) - level)) for x in change]
    return np.asarray(np.sign(change) * nearest)


def stream_loop(
    problem: Local,
    case: Case,
    halved: int = 10**9,
    sent: Callable[[Array], Array] = np.array,
) -> list[Array]:
    """Return the server's models, whose workers never miss anything, in the paper's way.

    It goes from local step to local step: a fragment is due every so many steps, and what all
    workers have made of it comes `overlap` steps later. Steps are halved every `halved` ones. The
    server sees of a worker's change what `sent` makes of it.
    """
    steps, fragments, overlap, blend = case
    d, workers = problem.dimension, range(len(SIZES))
    parts, server, kept = edges(d, fragments), np.zeros(d), blend if overlap else 0.0
    own, known = np.zeros((len(workers), d)), np.zeros((len(workers), d))
    inner = [INNER() for _ in workers]
    outer = [sgd(0.9, nesterov=True) for _ in parts]
    models, coming = list[Array](), dict[int, slice]()
    for t in range(1, steps * ROUNDS + 1):
        for m in workers:
            eta = ETA * 0.5 ** ((t - 1) // halved)
            own[m] = inner[m](own[m], problem.gradient(m, own[m]), eta)
        for now in (False, True):
            if (part := coming.pop(t, None)) is not None:
                own[:, part] = kept * own[:, part] + (1 - kept) * server[part]
                known[:, part] = server[part]
            if t % steps == 0 and not now:
                p = (t // steps - 1) % fragments
                changes = (own - known)[:, parts[p]]
                change = problem.weights @ [sent(each) for each in changes]
                server = server.copy()
                server[parts[p]] = outer[p](server[parts[p]], -change, 0.7)
                models.append(server)
                coming[t + overlap] = parts[p]
    return models


@pytest.mark.parametrize(
    "case",
    [(1, 1, 0, 0.5), (3, 2, 1, 0.5), (4, 4, 0, 0.9), (5, 3, 3, 0.2), (2, 2, 2, 0.5)],
)
def test_streaming_is_the_papers_loop_over_local_steps(case: Case, tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    seen = told(problem, keys(case), tmp_path)
    check_near(seen.run.models, stream_loop(problem, case))


@pytest.mark.parametrize("case", [(3, 2, 1, 0.5), (5, 3, 3, 0.2)])
def test_outer_changes_in_four_bits_are_the_papers_loop(case: Case, tmp_path: Path) -> None:
    problem, wire = local(tmp_path, "logistic", BATCH), {"up": {"compressor": "e3m0"}}
    seen = told(problem, keys(case), tmp_path, wire={"values": "float64", **wire})
    check_near(seen.run.models, stream_loop(problem, case, sent=four_bits))
    exact = np.array(stream_loop(problem, case))
    assert np.abs(seen.run.models - exact).max() > 1e-3 * np.abs(exact).max()


def test_steps_that_overlap_have_the_sizes_of_the_round_that_they_are_of(tmp_path: Path) -> None:
    problem, case = local(tmp_path, "logistic", BATCH), (3, 2, 2, 0.5)
    schedule = {"kind": "step", "by": "step", "every": 4, "to": 0.5}
    seen = told(problem, keys(case) | {"schedule": schedule}, tmp_path)
    check_near(seen.run.models, stream_loop(problem, case, halved=4))


def test_plain_steps_have_no_state_and_may_shrink_by_the_round(tmp_path: Path) -> None:
    """Without momentum at the server one fragment, mixed in at once, is federated averaging."""
    problem = local(tmp_path, "logistic", BATCH)
    schedule = {"kind": "step", "every": 3, "to": 0.5}
    plain = {"optimizer": None, "optimizer_state": "reset", "schedule": schedule}
    alone = {"server_optimizer": "sgd", "server_rate": 1.0}
    streamed = told(problem, keys((3, 1, 0, 0.5)) | plain | alone, tmp_path / "streamed")
    averaged = {"kind": "fedavg", "step_size": ETA, "local_steps": 3, "schedule": schedule}
    check_near(streamed.run.models, list(told(problem, averaged, tmp_path / "one").run.models))


@pytest.mark.slow
def test_diloco_is_fedopt_with_the_papers_rules_and_one_fragment(tmp_path: Path) -> None:
    problem, inner = local(tmp_path, "logistic", BATCH), {**BLOCK, "local_steps": 4}
    outer = {"kind": "sgd", "momentum": 0.9, "nesterov": True}
    written = {"optimizer_state": "kept", "server_rate": 0.7, "server_optimizer": outer}
    runs = [
        told(problem, block, tmp_path / str(number))
        for number, block in enumerate(
            [{"kind": "diloco", **inner}, {"kind": "fedopt", **inner, **written}]
        )
    ]
    assert runs[0].run.models.tobytes() == runs[1].run.models.tobytes()
    streamed = told(problem, keys((4, 1, 0, 0.5)), tmp_path / "streamed")
    check_near(streamed.run.models, list(runs[0].run.models))


# -- clients that miss rounds ----------------------------------------------------------


def turns_loop(problem: Local, cohorts: list[list[int]], case: Case) -> list[Array]:
    """Return the server's models where a cohort of its own takes part in each round."""
    steps, fragments, overlap, blend = case
    parts, server = edges(problem.dimension, fragments), np.zeros(problem.dimension)
    outer, inner = [sgd(0.9, nesterov=True) for _ in parts], [INNER() for _ in SIZES]
    own, known = dict[int, Array](), dict[int, Array]()
    last, models = dict[int, int](), list[Array]()
    for number, cohort in enumerate(cohorts):
        p, changes = number % fragments, []
        for m in cohort:
            if m not in own:
                own[m], known[m], left = server.copy(), server.copy(), steps
            else:
                left = steps - overlap
                for missed in range(max(last[m], number - fragments), number):
                    part = parts[missed % fragments]
                    kept = blend if missed == last[m] and overlap else 0.0
                    own[m][part] = kept * own[m][part] + (1 - kept) * server[part]
                    known[m][part] = server[part]
            own[m] = walk(problem, inner, m, own[m], left)
            changes.append((own[m] - known[m])[parts[p]])
            own[m], last[m] = walk(problem, inner, m, own[m], overlap), number
        change = shares(problem.weights, cohort) @ np.array(changes)
        server = server.copy()
        server[parts[p]] = outer[p](server[parts[p]], -change, 0.7)
        models.append(server)
    return models


def walk(problem: Local, inner: list[Any], m: int, w: Array, steps: int) -> Array:
    for _ in range(steps):
        w = inner[m](w, problem.gradient(m, w), ETA)
    return w.copy()


@pytest.mark.parametrize("case", [(3, 3, 2, 0.5), (2, 5, 0, 0.5)])
def test_who_has_missed_rounds_is_sent_the_fragments_of_these(case: Case, tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    seen = told(problem, keys(case), tmp_path, **TWO)
    check_near(seen.run.models, turns_loop(problem, seen.cohorts, case))
    sizes, last = [part.stop - part.start for part in edges(6, case[1])], dict[int, int]()
    for number, cohort in enumerate(seen.cohorts):
        came = {
            int(event["node"].removeprefix("client-")): event["payload_bits"]
            for event in seen.events
            if (event["event"], event["peer"], event["round"]) == ("receive", "server", number + 1)
        }
        for m in cohort:
            since = last.get(m, number - case[1])
            missed = range(max(since, number - case[1]), number)
            bits = 64 * sum(sizes[each % case[1]] for each in missed)
            assert bits <= came[m] <= bits + 64  # and what a payload says of itself
            last[m] = number


# -- time, and worlds --------------------------------------------------------------------

RADIO = {"kind": "ideal", "latency": "0.1 s", "up": "4 kbit/s", "down": "4 kbit/s"}
DEVICE = {"kind": "custom", "speed": "1 kflop/s", "active": "2 W", "idle": "1 W"}
FLEET = [{"count": 5, "device": DEVICE, "radio": RADIO}]


def test_a_client_computes_while_its_fragment_is_on_its_way(tmp_path: Path) -> None:
    """A round lasts as long as K - V steps, and what of V steps and transfers lasts longer."""
    problem, lasts, step = local(tmp_path, "logistic", 5), dict[int, float](), 0.0
    for overlap in (0, 2, 3, 4):
        case = (4, 2, overlap, 0.5)
        seen = told(problem, keys(case), tmp_path / str(overlap), fleet=FLEET)
        works = [
            event["duration"]
            for event in seen.events
            if event["event"] == "compute" and event["round"] < ROUNDS  # the last ones break off
        ]
        step = works[0]
        assert len(works) >= 5 * 4 * (ROUNDS - 1)
        assert works == pytest.approx([step] * len(works))
        gone = [row["t"] for row in seen.rounds[4:]]
        assert np.diff(gone) == pytest.approx(lasts.setdefault(overlap, gone[1] - gone[0]))
        if overlap:
            check_near(seen.run.models, stream_loop(local(tmp_path, "logistic", 5), case))
    away = lasts.pop(0) - 4 * step
    assert 2 * step < away < 4 * step
    for overlap, seconds in lasts.items():
        expected = (4 - overlap) * step + max(overlap * step, away)
        assert seconds == pytest.approx(expected), overlap


SLOW = {"kind": "custom", "speed": "0.3 kflop/s", "active": "2 W", "idle": "1 W"}
LOSSY = RADIO | {"loss": {"kind": "independent", "rate": "30 %"}, "tries": 1}
COMING = {"kind": "markov", "on": "6 s", "off": "3 s"}
REALMS: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "late": ("late", {"deadline": "1.5 s"}, [{"count": 1, "device": SLOW}]),
    "lost": ("lost", {"deadline": "9 s"}, [{"radio": LOSSY}]),
    "empty": ("depleted", {"deadline": "9 s"}, [{"count": 1, "battery": {"capacity": "10 J"}}]),
    "away": ("offline", {"count": 3, "deadline": "9 s"}, [{"availability": COMING}]),
}


@pytest.mark.slow
@pytest.mark.parametrize("realm", REALMS)
@pytest.mark.parametrize("method", ["diloco", "streaming-diloco"])
def test_worlds_in_which_messages_and_clients_get_lost(
    method: str, realm: str, tmp_path: Path
) -> None:
    event, participation, groups = REALMS[realm]
    problem, own = local(tmp_path, "logistic", BATCH), {"kind": "diloco", "local_steps": 3}
    block = keys((3, 2, 2, 0.5)) if method == "streaming-diloco" else BLOCK | own
    counts = [group.get("count", 5) for group in groups]
    fleet = [*groups, *([{"count": 5 - sum(counts)}] if sum(counts) < 5 else [])]
    seen = told(
        problem,
        block,
        tmp_path,
        fleet=[{"count": 5, "device": DEVICE, "radio": RADIO, **group} for group in fleet],
        participation={"kind": "uniform" if "count" in participation else "full", **participation},
        stop={"rounds": 20},
    )
    assert event in {each["event"] for each in seen.events}
    assert np.isfinite(seen.run.models).all()
    assert (np.linalg.norm(np.diff(seen.run.models[:5], axis=0), axis=1) > 0).all()


# -- what is refused -------------------------------------------------------------------


@every(
    ("wrong", "text"),
    [
        ({"overlap": 4}, "overlap: got 4, but the next fragment is sent after local_steps = 3"),
        ({"local_epochs": 2, "local_steps": 1}, "local_epochs: got one, but fragments follow"),
        ({"epochs": 2, "local_steps": 1}, "epochs: got one, but fragments follow"),
        ({"optimizer_state": "reset"}, "optimizer_state: got reset, but a client never begins"),
        ({"fragments": 17}, "less than or equal to 16"),
    ],
)
def test_what_cannot_stream_is_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        StreamingDiLoCo(**{"step_size": 0.1, "local_steps": 3, **wrong})


def test_a_model_of_few_values_has_few_fragments() -> None:
    info = ProblemInfo(clients=2, dimension=3, smoothness=lambda: 1.0)
    with pytest.raises(ParameterError, match="got 4, but the model has 3 values"):
        StreamingDiLoCo(step_size=0.1).configure(info)


def test_fragments_are_not_compressed() -> None:
    half = Contract("contractive", 0.5)
    info = ProblemInfo(clients=2, dimension=9, smoothness=lambda: 1.0, downlink=half)
    with pytest.raises(ParameterError, match=r"wire\.down\.compressor"):
        StreamingDiLoCo(step_size=0.1).configure(info)


def test_the_papers_rules_are_the_defaults() -> None:
    made = DiLoCo(step_size=0.1)
    assert made.server_rate == 0.7
    assert made.server_rule == SGD(momentum=0.9, nesterov=True)
    assert made.optimizer is not None
    assert (made.optimizer.kind, made.optimizer_state) == ("adamw", "kept")


def test_arrivals_have_no_turns(tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    scenario = {"problem": problem.block, "algorithm": keys((3, 2, 1, 0.5))}
    with pytest.raises(ScenarioError, match="a fragment's step takes the replies"):
        load(scenario | {"participation": {"kind": "asynchronous", "buffer": 2}})


def test_work_after_a_reply_is_neither_replayed_nor_done_live(tmp_path: Path) -> None:
    problem = local(tmp_path, "logistic", BATCH)
    plan = load({"problem": problem.block, "algorithm": keys((3, 2, 1, 0.5))})
    (variant,) = plan.variants
    (fault,) = refusals(variant.scenario, variant, len(SIZES), ())
    assert "compute after their replies; that needs training again" in str(fault)
    with pytest.raises(
        LiveError, match="compute after their replies, which live ones do not do yet"
    ):
        check_live(Builder(plan, carry="bytes").build(variant, 1))
