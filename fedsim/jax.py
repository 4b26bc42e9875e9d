"""fedsim.jax: functions of JAX and a tree of parameters as the problem of a scenario in Python.

    import fedsim, fedsim.jax

    problem = fedsim.jax.problem(init, apply, data=(X, y), test={"fraction": 0.2})
    result = fedsim.run({"problem": problem, "algorithm": {"kind": "fedavg", "step_size": 0.1}})
    parameters = fedsim.jax.parameters(init, result)

It needs JAX: pip install '.[jax]'.
"""

from fedsim.addons.jax import (
    optimizer,
    parameters,
    problem,
)

__all__ = [
    "optimizer",
    "parameters",
    "problem",
]
