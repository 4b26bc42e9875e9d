"""How many samples a client works on in a round, which its patience is reckoned from."""

from fedsim.algorithms import Algorithm, FedAvg, FedGradMP, GradientDescent, SignSGD
from fedsim.algorithms.solvers import StochasticDescent, VarianceReduced
from tests.tiers import every

SGD, SVRG = StochasticDescent(step_size=0.1), VarianceReduced(step_size=0.1)


@every(
    ("algorithm", "samples"),
    [
        (GradientDescent(kind="gd", step_size=1.0), 100),
        (FedAvg(step_size=1.0, local_steps=5, batch=10), 50),
        (FedAvg(step_size=1.0, local_steps=5, batch=1000), 500),
        (FedAvg(step_size=1.0, epochs=3, batch=10), 300),
        (SignSGD(step_size=1.0, batch=30), 30),
        (FedGradMP(sparsity=2, local_steps=2), 200),
        (FedGradMP(sparsity=2, local_steps=2, solver=SGD), 2 * 100 * 10),
        (FedGradMP(sparsity=2, local_steps=2, solver=SVRG), 2 * 10 * (100 + 20 * 10)),
    ],
)
def test_a_round_passes_over_so_many_of_a_hundred(algorithm: Algorithm, samples: int) -> None:
    assert algorithm.samples_per_round(100) == samples
