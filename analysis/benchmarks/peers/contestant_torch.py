"""A plain loop in PyTorch: one client after the other, models averaged, nothing else; W5.

python contestant_torch.py WORKLOAD FOLDER [THREADS]
"""

import sys
import time

import torch
from networks import ASKED, CLIENTS, ROUNDS, network, rows, train
from turns import Turn, take_turns


def main() -> None:
    """Take turns: each is some rounds of federated averaging."""
    _, folder, *threads = sys.argv[1:]
    if threads:
        torch.set_num_threads(int(threads[0]))
    data, module = rows(folder), network()
    shared = {name: value.clone() for name, value in module.state_dict().items()}

    def turn() -> Turn:
        began = time.perf_counter()
        for _ in range(ROUNDS):
            models = []
            for client in torch.randperm(CLIENTS)[:ASKED].tolist():
                module.load_state_dict(shared)
                train(module, data.X[client], data.t[client])
                models.append({name: each.clone() for name, each in module.state_dict().items()})
            for name in shared:
                shared[name] = torch.stack([each[name] for each in models]).mean(dim=0)
        return Turn(ROUNDS * ASKED, time.perf_counter() - began)

    take_turns(turn)


if __name__ == "__main__":
    main()
