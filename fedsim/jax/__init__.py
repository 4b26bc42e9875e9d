"""fedsim.jax: functions of JAX and a tree of parameters as the problem of a scenario in Python.

    import fedsim, fedsim.jax

    problem = fedsim.jax.problem(init, apply, data=(X, y), test={"fraction": 0.2})
    result = fedsim.run({"problem": problem, "algorithm": {"kind": "fedavg", "step_size": 0.1}})
    parameters = fedsim.jax.parameters(init, result)

It needs JAX: pip install '.[jax]'.
"""

try:
    import jax as _jax  # noqa: F401 - whether it is there
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    from fedsim.extras import missing

    raise ModuleNotFoundError(missing("fedsim.jax", "JAX", "jax"), name="jax") from None

from fedsim.jax.optimizers import optimizer
from fedsim.jax.problems import parameters, problem

__all__ = ["optimizer", "parameters", "problem"]
