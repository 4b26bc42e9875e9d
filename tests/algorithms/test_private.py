"""Differential privacy in whole runs, against loops of NumPy."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import ALGORITHMS, FedAvg
from fedsim.core.errors import Failed, ScenarioError
from fedsim.core.ports import Array
from fedsim.core.streams import stream
from fedsim.protocol.estimates import inclusion_probabilities
from fedsim.protocol.privacy.accounting import Bound, planned_epsilon
from fedsim.results.record.parts import read_table
from fedsim.scenario.building import Builder
from fedsim.sim.arrays.fits import why_events
from fedsim.sim.arrays.together import may_be_alike
from tests.algorithms.local_loops import SIZES, Local, check_near, local, shares, told
from tests.methods import ARRIVALS, CONSTRAINED, LOGISTIC, METHODS, PENALISED
from tests.runs import small

pytestmark = pytest.mark.needs("privacy")

FEDAVG: dict[str, Any] = {"kind": "fedavg", "step_size": 0.5, "local_steps": 3}
OFF = 1e300
"""A clip that no vector reaches."""


def update(problem: Local, client: int, w: Array) -> Array:
    return problem.descend(client, w, FEDAVG["step_size"], FEDAVG["local_steps"]) - w


def clip(vector: Array, bound: float) -> Array:
    return vector * min(1.0, bound / float(np.linalg.norm(vector)))


def test_no_clip_and_no_noise_is_the_run_without_privacy(tmp_path: Path) -> None:
    """The log to the byte; models to rounding, since weights have another denominator."""
    problem, privacy = local(tmp_path), {"clip": OFF, "noise": 0}
    for name, participation in {
        "full": {"kind": "full"},
        "sampled": {"kind": "uniform", "count": 3},
    }.items():
        problem.block["weights"] = "equal"
        seen = told(problem, FEDAVG, tmp_path / name, participation=participation)
        private = told(
            problem, FEDAVG, tmp_path / f"{name}-2", participation=participation, privacy=privacy
        )
        plain, same = (
            (tmp_path / each / "run" / "events.parquet").read_bytes()
            for each in (name, f"{name}-2")
        )
        assert plain == same
        check_near(private.run.models, list(seen.run.models))
        assert {row["epsilon"] for row in private.rounds} == {float("inf")}


def test_dp_fedavg_is_the_loop(tmp_path: Path) -> None:
    """DP-FedAvg: clipped updates, weights over their expected sum, and noise of z C max p / E."""
    problem, rng = local(tmp_path), stream(1, "privacy")
    privacy = {"clip": 0.2, "noise": 0.8}
    seen = told(
        problem, FEDAVG, tmp_path, privacy=privacy, participation={"kind": "uniform", "count": 3}
    )
    weights, w, models = problem.weights, np.zeros(problem.dimension), []
    expected = 3 / len(SIZES)
    assert len({tuple(cohort) for cohort in seen.cohorts}) > 1
    for cohort in seen.cohorts:
        step = sum(weights[m] / expected * clip(update(problem, m, w), 0.2) for m in cohort)
        deviation = 0.8 * 0.2 * weights.max() / expected
        w = w + step + deviation * rng.standard_normal(problem.dimension)
        models.append(w)
    check_near(seen.run.models, models)


def test_dp_ftrl_is_follow_the_regularised_leader(tmp_path: Path) -> None:
    """x_t = x_0 + S_t + noise of the nodes of t, a new tree after four rounds; S_t sums updates."""
    problem, rng = local(tmp_path), stream(1, "privacy")
    privacy = {"clip": 0.2, "noise": 0.8, "tree": 4}
    seen = told(
        problem, FEDAVG, tmp_path, privacy=privacy, participation={"kind": "uniform", "count": 3}
    )
    weights, expected, models = problem.weights, 3 / len(SIZES), []
    start = total = w = np.zeros(problem.dimension)
    deviation, nodes = 0.8 * 0.2 * weights.max() / expected, dict[tuple[int, int], Array]()
    for number, cohort in enumerate(seen.cohorts):
        if number % 4 == 0:
            start, total, first = w, np.zeros(problem.dimension), number
        total = total + sum(
            weights[m] / expected * clip(update(problem, m, w), 0.2) for m in cohort
        )
        # The nodes that cover the rounds of this tree so far, from the largest to the smallest.
        covered, term = [], 0
        for size in (4, 2, 1):
            if (number - first + 1) & size:
                covered.append((first + term, size))
                term += size
        nodes |= {one: rng.standard_normal(w.size) for one in covered if one not in nodes}
        w = start + total + deviation * sum(nodes[one] for one in covered)
        models.append(w)
    check_near(seen.run.models, models)
    replies = np.zeros((len(seen.cohorts), len(SIZES)))
    for number, cohort in enumerate(seen.cohorts):
        replies[number, cohort] = weights[cohort] / weights.max() / 0.8
    squares = sum(replies[first : first + size].sum(axis=0) ** 2 for first, size in nodes)
    bound = Bound(sample=3, clients=5, tree=4)
    spent = max(planned_epsilon(1, float(each), bound, 1e-5) for each in np.asarray(squares))
    assert seen.rounds[-1]["epsilon"] == pytest.approx(spent)


@pytest.mark.parametrize(
    "privacy",
    [
        {"clip": 0.5, "noise": 1.0},
        {"clip": 0.5, "noise": 1.0, "tree": 3},
        {"clip": 0.5, "noise": 1.0, "where": "clients"},
        {"clip": {"kind": "adaptive", "start": 0.5, "count_noise": 2.0}, "noise": 1.0},
    ],
    ids=["server", "tree", "clients", "adaptive"],
)
@pytest.mark.parametrize("participation", ["full", "poisson"])
def test_private_rounds_in_arrays_are_those_of_events(
    privacy: dict[str, Any], participation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every table to the byte; a loss that arrays do not expect would run the rounds again."""
    count = {"count": 3} if participation == "poisson" else {}
    blocks = {
        "algorithm": {"kind": "fedavg", "step_size": 0.001, "local_steps": 2},
        "participation": {"kind": participation, **count},
        "privacy": privacy,
        "stop": {"rounds": 7},
    }
    for way in ("arrays", "events"):
        monkeypatch.setenv("FEDSIM_ROUNDS", way)
        plan = fedsim.load(small(**blocks))
        setup = Builder(plan).build(plan.variants[0], 1).setup
        assert (why_events(setup) == "") is (way == "arrays")
        # A bit of each client about its own norm is no row of an array.
        assert may_be_alike(setup) is isinstance(privacy["clip"], float)
        run(tmp_path / way, **blocks)
    for table in ("events", "rounds", "clients", "models"):
        one, other = (
            next((tmp_path / way).glob(f"*/seed-1/{table}.parquet")).read_bytes()
            for way in ("arrays", "events")
        )
        assert one == other, table


def test_clients_add_their_own_noise(tmp_path: Path) -> None:
    problem, privacy = local(tmp_path), {"clip": 0.2, "noise": 0.8, "where": "clients"}
    seen = told(problem, FEDAVG, tmp_path, privacy=privacy)
    rngs = [stream(1, "privacy", m) for m in range(len(SIZES))]
    w, models = np.zeros(problem.dimension), []
    for _ in seen.run.models:
        sent = [
            clip(update(problem, m, w), 0.2) + 0.16 * rng.standard_normal(problem.dimension)
            for m, rng in enumerate(rngs)
        ]
        w = w + problem.weights @ np.array(sent)
        models.append(w)
    check_near(seen.run.models, models)
    bound = Bound(sample=5, clients=5, replaces=True)
    each = [planned_epsilon(n, (2 / 0.8) ** 2, bound, 1e-5) for n in range(1, len(models) + 1)]
    assert [row["epsilon"] for row in seen.rounds] == pytest.approx(each)


def test_an_adaptive_clip_is_the_loop(tmp_path: Path) -> None:
    problem, rng, count = local(tmp_path), stream(1, "privacy"), stream(1, "privacy", "count")
    privacy = {"clip": {"kind": "adaptive", "start": 0.4, "count_noise": 2.0}, "noise": 0.8}
    seen = told(problem, FEDAVG, tmp_path, privacy=privacy)
    vectors = (0.8**-2 - 4.0**-2) ** -0.5
    w, models, clips, bound = np.zeros(problem.dimension), [], list[float](), 0.4
    for _ in seen.run.models:
        clips.append(bound)
        updates = [update(problem, m, w) for m in range(len(SIZES))]
        within = sum(float(np.linalg.norm(each)) <= bound for each in updates)
        share = (within + 2.0 * count.standard_normal()) / len(SIZES)
        noise = vectors * bound * problem.weights.max() * rng.standard_normal(problem.dimension)
        w = w + problem.weights @ np.array([clip(each, bound) for each in updates]) + noise
        models.append(w)
        bound *= np.exp(-0.2 * (share - 0.5))
    check_near(seen.run.models, models)
    assert [row["clip"] for row in seen.rounds] == pytest.approx(clips)
    # Vectors and bits together have the privacy of z.
    spent = planned_epsilon(len(models), 0.8**-2, Bound(sample=5, clients=5), 1e-5)
    assert seen.rounds[-1]["epsilon"] == pytest.approx(spent)


def test_two_vectors_share_the_clip(tmp_path: Path) -> None:
    """Those of scaffold are clipped to C/sqrt(2) each; a round costs as much as one vector."""
    problem, privacy = local(tmp_path), {"clip": 0.1, "noise": 0.8}
    scaffold = {"kind": "scaffold", "step_size": 0.1, "local_steps": 2}
    seen = told(problem, scaffold, tmp_path, privacy=privacy)
    spent = planned_epsilon(8, 0.8**-2, Bound(sample=5, clients=5), 1e-5)
    assert seen.rounds[-1]["epsilon"] == pytest.approx(spent)


def run(folder: Path, **blocks: Any) -> Any:
    return fedsim.run(small(**blocks), out=folder)


def clients_of(folder: Path) -> list[dict[str, Any]]:
    (place,) = folder.glob("*/seed-1")
    rows: list[dict[str, Any]] = read_table(place, "clients").to_pylist()
    return rows


def test_the_run_ends_before_its_epsilon_is_exceeded(tmp_path: Path) -> None:
    privacy = {"clip": 1.0, "noise": 2.0}
    run(
        tmp_path,
        algorithm={"kind": "fedavg", "step_size": 0.001, "local_steps": 2},
        privacy=privacy,
        stop={"rounds": 100, "epsilon": 8},
    )
    (place,) = tmp_path.glob("*/seed-1")
    summary = json.loads((place / "summary.json").read_text())
    rounds = summary["rounds"]
    bound = Bound(sample=5, clients=5)
    spent, more = (planned_epsilon(n, 0.25, bound, 1e-5) for n in (rounds, rounds + 1))
    assert spent <= 8 < more
    assert summary["reason"].startswith(f"epsilon: {spent:.6g} of 8; one more round")


def test_fast_devices_lose_more(tmp_path: Path) -> None:
    """An asynchronous server: each client pays for as many replies as it has in updates."""
    fedbuff = {"kind": "fedbuff", "step_size": 0.001, "local_steps": 2}
    privacy = {"clip": 1.0, "noise": 2.0}
    fleet = [
        {"count": 2, "device": "phone-mid", "radio": "wifi"},
        {"count": 3, "device": "pi-zero-2w", "radio": "nb-iot"},
    ]
    run(
        tmp_path,
        algorithm=fedbuff,
        fleet=fleet,
        participation={"kind": "asynchronous", "buffer": 1},
        privacy=privacy,
        problem=small()["problem"] | {"weights": "equal"},
    )
    clients = clients_of(tmp_path)
    epsilon = [client["epsilon"] for client in clients]
    assert min(epsilon[:2]) > 2 * max(epsilon[2:])
    (place,) = tmp_path.glob("*/seed-1")
    last = read_table(place, "rounds").to_pylist()[-1]
    assert last["epsilon"] == max(epsilon)
    bound = Bound(sample=1, clients=5)
    possible = [planned_epsilon(n, 0.25, bound, 1e-5) for n in range(40)]
    assert all(np.isclose(possible, each).any() for each in epsilon)


def test_private_runs_are_priced_again_and_in_many_worlds(tmp_path: Path) -> None:
    """Times have no say in epsilon: a re-priced run equals a fresh one, file by file."""
    blocks = {
        "algorithm": {"kind": "fedavg", "step_size": 0.001, "local_steps": 2},
        "privacy": {"clip": {"kind": "adaptive", "start": 0.5, "count_noise": 2.0}, "noise": 1.0},
        "stop": {"rounds": 4},
        "variants": {"private": {}, "open": {"privacy": None}},
    }
    run(tmp_path / "before", **blocks)
    fedsim.reprice(tmp_path / "before", ["fleet.0.radio=wifi"], tmp_path / "priced")
    wifi, other = small()["fleet"]
    run(tmp_path / "fresh", **blocks, fleet=[wifi | {"radio": "wifi"}, other])
    for table in ("rounds", "clients", "events"):
        priced, fresh = (
            (tmp_path / each / "private" / "seed-1" / f"{table}.parquet").read_bytes()
            for each in ("priced", "fresh")
        )
        assert priced == fresh, table
    assert len(fedsim.robust(tmp_path / "before", worlds=8).constants)


REFUSED = [
    ({"algorithm": {"kind": "fedasync", "step_size": 0.1}, **ARRIVALS}, "one by one"),
    ({"algorithm": {"kind": "fednova", "step_size": 0.1}}, "their number of steps"),
    ({"algorithm": {"kind": "fedgradmp", **METHODS["fedgradmp"]}}, "sends: differences"),
    ({"aggregation": {"kind": "median"}}, "may change by more than a clipped vector"),
    ({"wire": {"up": {"compressor": {"kind": "qsgd", "levels": 4}}}}, "longer"),
    ({"privacy": {"clip": 1, "noise": 1, "where": "distributed"}}, "give secrecy"),
    ({"privacy": {"clip": 0, "noise": 1}}, "privacy.clip"),
    (
        {"privacy": {"clip": {"kind": "adaptive"}, "noise": 1, "where": "clients"}},
        "no server noises the count",
    ),
    ({"privacy": {"clip": {"kind": "adaptive"}, "noise": 4}}, "give more, or less noise"),
    ({"privacy": {"clip": 1, "noise": 1, "law": "discrete-gaussian"}}, "only where: distributed"),
    ({"privacy": {"clip": 1, "noise": 1, "where": "clients", "tree": 8}}, "keeps a tree of noise"),
    (
        {"privacy": {"clip": {"kind": "adaptive"}, "noise": 1, "tree": 8}},
        "its bits are in no tree",
    ),
    ({"privacy": None, "stop": {"epsilon": 3}}, "nothing counts epsilon"),
]


@pytest.mark.parametrize(("blocks", "reason"), REFUSED, ids=[each for _, each in REFUSED])
def test_refused_with_the_reason(blocks: dict[str, Any], reason: str) -> None:
    scenario = {
        "problem": LOGISTIC,
        "algorithm": FEDAVG,
        "fleet": [{"count": 5}],
        "privacy": {"clip": 1, "noise": 1},
    } | blocks
    with pytest.raises(ScenarioError, match=reason):
        fedsim.load(scenario)


def test_peers_are_refused() -> None:
    problem, network = LOGISTIC, {"peers": {"kind": "ring"}}
    scenario = {
        "problem": problem,
        "algorithm": {"kind": "d-psgd", "step_size": 0.1},
        "network": network,
        "fleet": [{"count": 5}],
        "privacy": {"clip": 1, "noise": 1},
    }
    with pytest.raises(ScenarioError, match="no server that adds up"):
        fedsim.load(scenario)


UNBOUNDED = ("fedasync", "fedexprox", "fednova", "fedsgm", "fedsgm-stale")
PROBLEMS = {
    **dict.fromkeys(("fedsgm", "fedsgm-stale"), CONSTRAINED),
    **dict.fromkeys(("c-fedda", "mc-fedda"), PENALISED),
}
SENDS_MODELS = ("distributed-iht", "fed-ht", "fediter-ht", "fedgradmp")


def needs(kind: str) -> dict[str, Any]:
    problem = PROBLEMS.get(kind, LOGISTIC)
    more = {"sends": "differences"} if kind in SENDS_MODELS else {}
    way = ARRIVALS if ALGORITHMS.own[kind].asynchronous else {}
    return {"problem": problem, "algorithm": {"kind": kind, **METHODS[kind], **more}, **way}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")
@pytest.mark.parametrize("kind", METHODS)
def test_each_method_is_private_or_refused(kind: str, tmp_path: Path) -> None:
    """Epsilon of a method with full participation is at least that of its rounds."""
    scenario = needs(kind) | {
        "fleet": [{"count": 5}],
        "privacy": {"clip": 0.5, "noise": 4.0},
        "stop": {"rounds": 3},
    }
    if kind in UNBOUNDED:
        with pytest.raises(ScenarioError, match="no clip"):
            fedsim.load(scenario)
        return
    fedsim.run(scenario, out=tmp_path)
    (place,) = tmp_path.glob("*/seed-1")
    rounds = read_table(place, "rounds").to_pylist()[1:]
    assert all(0 < row["epsilon"] < 10 for row in rounds)
    assert [row["epsilon"] for row in rounds] == sorted(row["epsilon"] for row in rounds)


def notes(**blocks: Any) -> Sequence[str]:
    fleet = [{"count": 100, "device": "phone-mid", "radio": "lte"}]
    scenario = {
        "problem": LOGISTIC | {"weights": "equal"},
        "algorithm": FEDAVG,
        "fleet": fleet,
        "privacy": {"clip": 1, "noise": 1},
        "stop": {"rounds": 50},
    } | blocks
    return [note.text for note in fedsim.check(scenario).notes if note.key.startswith("privacy")]


POISSON = {"kind": "poisson", "count": 40}
NOT_AMPLIFIED: dict[str, dict[str, Any]] = {
    "participation.over": {"participation": {"kind": "uniform", "count": 40, "over": 1.2}},
    "participation oort": {
        "participation": {"kind": "oort", "count": 40, "deadline": "10 s"},
    },
    "availability": {
        "participation": POISSON,
        "fleet": [{"count": 100, "availability": {"kind": "bernoulli", "share": 0.5}}],
    },
    "keep a state": {
        "participation": POISSON,
        "algorithm": {"kind": "scaffold", **METHODS["scaffold"]},
    },
    "weights of clients differ": {
        "participation": {"kind": "uniform", "count": 40},
        "problem": LOGISTIC | {"split": {"kind": "lognormal", "sigma": 1.0}, "weights": "rows"},
    },
}


def test_check_and_the_run_charge_the_same(tmp_path: Path) -> None:
    """Amplified, `check` foretells what a run ends with; else each client has its own replies."""
    fleet = [{"count": 40, "device": "phone-mid", "radio": "lte"}]
    scenario = {
        "problem": LOGISTIC | {"weights": "equal"},
        "algorithm": FEDAVG | {"step_size": "1/L_max"},
        "fleet": fleet,
        "privacy": {"clip": 1, "noise": 1},
        "stop": {"rounds": 12},
    }
    over = {"kind": "uniform", "over": 1.5, "late": "drop"}
    for name, more in {"whole": {}, "over": over}.items():
        blocks = scenario | {"participation": {"kind": "poisson", "count": 20} | more}
        notes = {note.key: note.text for note in fedsim.check(blocks).notes}
        fedsim.run(blocks, out=tmp_path / name)
        spent = [client["epsilon"] for client in clients_of(tmp_path / name)]
        foretold = float(notes["privacy"].split()[1])
        if name == "whole":
            assert spent == pytest.approx([foretold] * 40, rel=1e-3)
        else:
            assert max(spent) <= foretold * (1 + 1e-3)
            average = float(notes["privacy"].partition(" in each, and ")[2].split()[0])
            assert min(spent) < average < max(spent)
            assert "after 6 replies, the average if none is missing (a run" in notes["privacy"]


def test_a_run_that_noise_has_spoilt_is_advised_of_noise(tmp_path: Path) -> None:
    """A round's noise has the length z sqrt(d)/n of a mean update; a longer one, or a step of at
    most 1/L, is the cause."""
    known = small()["problem"] | {"weights": "equal"}
    fedavg = {"kind": "fedavg", "step_size": "1/L_max", "local_steps": 1}
    for noise, reason in ((20.0, "noise of a round is"), (0.5, "so the noise is the cause")):
        privacy = {"clip": 500, "noise": noise}
        blocks = {"problem": known, "algorithm": fedavg, "privacy": privacy}
        result = fedsim.run(small(**blocks), out=tmp_path / f"{noise}")
        (text,) = (note.text for note in result.notes if note.key == "objective")
        assert reason in text
        assert "try" not in text
    plan = fedsim.load(small(**blocks))
    terms = Builder(plan).build(plan.variants[0], 1).terms
    assert terms is not None
    assert terms.noise_length == pytest.approx(0.5 * terms.coordinates**0.5 / 5)


def test_check_says_which_bound_holds() -> None:
    text = notes(participation=POISSON)[0]
    epsilon = planned_epsilon(50, 1.0, Bound(sampling="poisson", sample=40, clients=100), 1e-5)
    assert text.startswith(
        f"epsilon {epsilon:.4g} after 50 rounds, at delta 1e-05, amplified by Po"
    )
    text = notes(participation={"kind": "uniform", "count": 40})[0]
    assert "amplified by a uniform sample of 40 of 100" in text
    assert "one client is replaced by another" in text
    assert "zeros" in notes()[0]


@pytest.mark.parametrize(
    "participation", [{}, POISSON, {"kind": "oort", "count": 40, "deadline": "10 s"}]
)
def test_check_says_what_a_tree_costs(participation: dict[str, Any]) -> None:
    """50 rounds are three trees of 16 and one of 2: 3 * 5 + 2 nodes for one reply in each."""
    text = notes(
        privacy={"clip": 1, "noise": 4, "tree": 16},
        participation=participation or {"kind": "full"},
    )[0]
    bound = Bound(sample=40, clients=100, tree=16)
    assert text.startswith(f"epsilon {planned_epsilon(17, 4**-2, bound, 1e-5):.4g} after 50 rounds")
    always = 3 * (8 + 4 * 4 + 2 * 16 + 64 + 256) + 1 + 4
    assert f"each tree, {planned_epsilon(always, 4**-2, bound, 1e-5):.4g} if it replies" in text
    assert "a tree of 16 sums, without sampling (DP-FTRL); neighbours: a client's replies" in text


def test_check_lists_what_epsilon_does_not_cover() -> None:
    """Each measure that the run publishes, and who is chosen, if that follows from data."""
    measures = ["train_accuracy", "gradient_norm", "client_accuracy"]
    oort = {"kind": "oort", "count": 40, "deadline": "10 s"}
    listed = (
        "objectives, train_accuracy, gradient_norm, client_accuracy and times, which are published"
    )
    assert f"; not of {listed} as they are" in notes(measures=measures)[-1]
    chosen = notes(measures=measures, participation=oort)[-1]
    assert f"; not of which clients are chosen, and {listed}" in chosen
    assert notes()[-1] == (
        "epsilon is of the models that the server sends; not of objectives and times, which are"
        " published as they are"
    )
    local = notes(privacy={"clip": 1, "noise": 1, "where": "clients"})[-1]
    assert local.startswith("epsilon is of the replies of clients; not of objectives and times")


@pytest.mark.parametrize("reason", NOT_AMPLIFIED)
def test_check_says_why_sampling_amplifies_nothing(reason: str) -> None:
    text = notes(**NOT_AMPLIFIED[reason])[0]
    assert "without amplification by sampling" in text
    assert reason in text


def test_poisson_sampling_draws_each_client_by_itself(tmp_path: Path) -> None:
    problem = local(tmp_path)
    seen = told(
        problem,
        FEDAVG,
        tmp_path,
        participation={"kind": "poisson", "count": 2},
        stop={"rounds": 400},
    )
    drawn = np.array([[m in cohort for m in range(len(SIZES))] for cohort in seen.cohorts])
    rate = 0.4 / (1 - 0.6**5)  # an empty draw is repeated
    assert drawn.mean(axis=0) == pytest.approx(rate, abs=4 * np.sqrt(0.25 / 400))
    sizes = np.bincount(drawn.sum(axis=1), minlength=6)
    assert not sizes[0]
    assert (sizes[1:] > 0).all()
    w = np.zeros(problem.dimension)
    models = []
    for cohort in seen.cohorts[:20]:
        w = w + shares(problem.weights, cohort) @ np.array([update(problem, m, w) for m in cohort])
        models.append(w)
    check_near(seen.run.models[:20], models)


def test_sampling_by_size_weighs_by_the_chance_of_a_client(tmp_path: Path) -> None:
    """An unbiased mean: p_m over M q_m, over their expected sum, q_m the share of the draws."""
    problem, rng = local(tmp_path), stream(1, "privacy")
    seen = told(
        problem,
        FEDAVG,
        tmp_path,
        privacy={"clip": 0.2, "noise": 0.8},
        participation={"kind": "weighted", "count": 2},
    )
    weights = problem.weights
    q = inclusion_probabilities(np.array(SIZES, float), 2) / 2
    counted = weights / (len(SIZES) * q)
    expected = 2 * q @ counted
    w, models = np.zeros(problem.dimension), []
    for cohort in seen.cohorts:
        step = sum(counted[m] / expected * clip(update(problem, m, w), 0.2) for m in cohort)
        deviation = 0.8 * 0.2 * counted.max() / expected
        w = w + step + deviation * rng.standard_normal(problem.dimension)
        models.append(w)
    check_near(seen.run.models, models)


class AddsUpItself(FedAvg):
    """Its server adds up replies without the server's sum."""

    kind: Literal["adds-up-itself"] = "adds-up-itself"  # type: ignore[assignment]

    def server_step(self, server: Any, replies: Any) -> Array:
        return np.asarray(np.mean([reply.message.delta.values for reply in replies], axis=0))


def test_a_method_that_adds_up_by_itself_fails_with_the_reason(tmp_path: Path) -> None:
    blocks = {
        "algorithm": {"kind": "adds-up-itself", "step_size": 0.001},
        "privacy": {"clip": 1.0, "noise": 1.0},
    }
    with pytest.raises(Failed, match="sums have no noise"):
        fedsim.run(small(**blocks), out=tmp_path, blocks=[AddsUpItself])
