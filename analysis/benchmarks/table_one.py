"""What does the simulator cost on top of the numeric work of Table I, logistic column?

CHB on ijcnn1 takes about 48,000 gradients of 5554 x 22. The plain loop computes the same
gradients and the same rule with NumPy and nothing else: no objective, no network, no log.
The two take turns, each in one thread, on data that is already loaded.

    FEDSIM_DATA=... python analysis/benchmarks/table_one.py
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from fedsim.core.ports import Array
from fedsim.running.run import execute
from fedsim.scenario import Plan, load
from fedsim.scenario.building import Builder

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios/papers/chb-ijcnn1-logistic.yaml"
WORKERS, REPEATS = 9, 3
L2, ALPHA, BETA, CENSOR = 0.001, 1e-4, 0.4, 0.1


def parts_of(plan: Plan) -> list[tuple[Array, Array]]:
    """Return the rows and labels of each worker: contiguous blocks, the remainder dropped."""
    source = plan.variants[0].scenario.problem.data
    assert source is not None
    data = source.load(plan.folder, np.random.default_rng())
    rows = len(data.y) // WORKERS
    blocks = [slice(m * rows, (m + 1) * rows) for m in range(WORKERS)]
    return [(data.X[block], data.y[block]) for block in blocks]


def plain(data: list[tuple[Array, Array]], rounds: int) -> int:
    """Run CHB as a loop; return how many messages it would send."""
    workers, d = len(data), data[0][0].shape[1]
    eps1 = CENSOR / (ALPHA * workers) ** 2
    theta = before = np.zeros(d)
    held, total, sent = np.zeros((workers, d)), np.zeros(d), 0
    for _ in range(rounds):
        step = theta - before
        moved = step @ step
        for m, (X, y) in enumerate(data):
            gradient = L2 * theta - X.T @ (y / (1.0 + np.exp(y * (X @ theta))))
            news = gradient - held[m]
            if news @ news > eps1 * moved:
                held[m] = gradient
                total += news
                sent += 1
        theta, before = theta - ALPHA * total + BETA * step, theta
    return sent


def main() -> None:
    """Print how long the simulated run takes, in units of the plain loop."""
    plan = load(SCENARIO, overrides=["variants={}", "fleet=[]", "network={}"])
    job = Builder(plan).build(plan.variants[0], 1)
    data = parts_of(plan)
    ratios = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            execute(job, Path(folder))
            simulated = time.process_time() - start
        with threadpool_limits(limits=1):
            start = time.process_time()
            plain(data, 5324)
            loop = time.process_time() - start
        ratios.append(simulated / loop)
        print(f"simulated {simulated:.2f} s, plain loop {loop:.2f} s, ratio {ratios[-1]:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
