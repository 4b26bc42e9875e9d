"""Make `opacus.json`: epsilons at delta 1e-5, and Renyi divergences, of Opacus 1.6.0.

Its module needs NumPy and SciPy alone:

    pip download --no-deps opacus==1.6.0 && unzip opacus-1.6.0-*.whl -d opacus
    python tests/protocol/vectors_of_opacus.py opacus/opacus/accountants/analysis/rdp.py
"""

import json
import runpy
import sys
from pathlib import Path

RUNS = [
    (rate, noise, steps)
    for rate in (0.004, 0.1, 1.0)
    for noise in (0.6, 1.0, 2.5)
    for steps in (1, 100, 3000)
]
DELTA = 1e-5
ORDERS = list(range(2, 64))

if __name__ == "__main__":
    opacus = runpy.run_path(sys.argv[1])
    runs = []
    for rate, noise, steps in RUNS:
        way = {"q": rate, "noise_multiplier": noise, "steps": steps, "orders": ORDERS}
        divergence = opacus["compute_rdp"](**way)
        epsilon, _ = opacus["get_privacy_spent"](orders=ORDERS, rdp=divergence, delta=DELTA)
        shown = [float(each) for each in divergence[[0, 1, 8, 30, 61]]]
        runs.append([rate, noise, steps, float(epsilon), *shown])
    text = ",\n ".join(json.dumps(run) for run in runs)
    Path(__file__).with_name("opacus.json").write_text(f"[{text}]\n")
