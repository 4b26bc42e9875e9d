"""JAX functions with a tree of parameters as the problem of a scenario in Python.

`fedsim.jax` hands its names on, and has an example.
"""

try:
    import jax as _jax  # noqa: F401 - whether it is there
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    from fedsim.core.extras import missing

    raise ModuleNotFoundError(missing("fedsim.jax", "JAX", "jax"), name="jax") from None

from fedsim.addons.jax.optimizers import optimizer
from fedsim.addons.jax.problems import parameters, problem

__all__ = ["optimizer", "parameters", "problem"]
