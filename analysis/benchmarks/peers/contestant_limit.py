"""The limit: compiled kernels on two threads, with all work known beforehand and no simulator.

    python contestant_limit.py WORKLOAD FOLDER

The kernels are those of `evaluator: compiled`, called with twenty pieces at a time.
"""

import sys
import threading
import time
from pathlib import Path

import numpy as np
from turns import Turn, take_turns

import fedsim
from fedsim.core.ports import Work
from fedsim.problems.evaluators.compiled import CompiledProgram
from fedsim.problems.kernels import gradient, sgd_steps
from fedsim.scenario.building import Builder

THREADS, SHARE = 2, 20
UPDATES = {"w1": 60, "w2": 1000, "w3": 1000, "w4": 400}


def main() -> None:
    """Take turns: each is the work of some clients, half of it on each thread."""
    name, folder = sys.argv[1:]
    plan = fedsim.load(Path(folder) / f"{name}.yaml", overrides=["sweep=null"])
    problem = Builder(plan).build(plan.variants[0], 1).problem
    program, w = CompiledProgram(problem.losses), np.zeros(problem.dimension)
    rng, clients = np.random.default_rng(1), len(problem.losses)

    def work(client: int) -> Work:
        if name == "w2":
            return Work(gradient, client, (w,), 1.0)
        steps = {"w1": 40, "w3": 1, "w4": 5}[name]
        drawn = tuple(rng.choice(100, 50, replace=False, shuffle=False) for _ in range(steps))
        every = (None,) * steps
        return Work(sgd_steps, client, (w, 0.01, every if name == "w4" else drawn, None), 1.0)

    works = [work(number % clients) for number in range(UPDATES[name])]
    shares = [works[i : i + SHARE] for i in range(0, len(works), SHARE)]

    def run(own: list[list[Work]]) -> None:
        for share in own:
            program.run(share)

    def turn() -> Turn:
        threads = [
            threading.Thread(target=run, args=(shares[number::THREADS],))
            for number in range(THREADS)
        ]
        begin, spent = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return Turn(len(works), time.perf_counter() - begin, time.process_time() - spent)

    take_turns(turn)


if __name__ == "__main__":
    main()
