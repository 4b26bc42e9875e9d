"""The algorithms: one file a family of methods, each written as its paper's box."""

from typing import TYPE_CHECKING

from fedsim.algorithms.base import Algorithm, Arrivals, ProblemInfo, StepSize
from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry

if TYPE_CHECKING:
    from fedsim.algorithms.adaptive import FedAdagrad, FedAdam, FedAvgM, FedOpt, FedYogi
    from fedsim.algorithms.asynchronous import FedAsync, FedBuff
    from fedsim.algorithms.averaging import (
        FedAvg,
        FedExProx,
        FedNova,
        FedProx,
    )
    from fedsim.algorithms.censored import (
        CensoredHeavyBall,
        GradientDescent,
        HeavyBall,
        LazyGradient,
    )
    from fedsim.algorithms.censored_peers import Coke, Cola
    from fedsim.algorithms.charge_aware import ChargeAwareHeavyBall
    from fedsim.algorithms.choco import ChocoGossip, ChocoSgd, SparqSgd
    from fedsim.algorithms.composite import FedDualAvg, FedMid
    from fedsim.algorithms.compressed import CompressedDescent, Diana
    from fedsim.algorithms.concerns import Concern
    from fedsim.algorithms.control_variates import Scaffnew, Scaffold
    from fedsim.algorithms.diloco import DiLoCo, StreamingDiLoCo
    from fedsim.algorithms.dual_averaging import CFedDA, FastFedDA, MCFedDA
    from fedsim.algorithms.error_feedback import EF21
    from fedsim.algorithms.exact_peers import Diging, Extra, Nids
    from fedsim.algorithms.fedcom import FedCom, FedComGate
    from fedsim.algorithms.gossip import DPSGD, DFedAvg, Gossip
    from fedsim.algorithms.lag import LagServer, LagWorker
    from fedsim.algorithms.local_steps import SendsModels
    from fedsim.algorithms.marina import Marina, PPMarina
    from fedsim.algorithms.marina_p import MarinaP
    from fedsim.algorithms.matching_pursuit import FedGradMP
    from fedsim.algorithms.pairwise import ADPSGD, PairwiseAlgorithm, PairwiseGossip
    from fedsim.algorithms.peer_mixing import PeerAlgorithm
    from fedsim.algorithms.personal import APFL, Ditto, PFedMe
    from fedsim.algorithms.push_sum import PushSum, StochasticGradientPush
    from fedsim.algorithms.sign_sgd import SignSGD
    from fedsim.algorithms.switching import FedSGM, StaleFedSGM
    from fedsim.algorithms.thresholding import DistributedIHT, FedHT, FedIterHT
else:
    __getattr__, __dir__ = exports(__name__)

ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm",
    Named(
        __name__,
        {
            "chb": "CensoredHeavyBall",
            "hb": "HeavyBall",
            "lag": "LazyGradient",
            "gd": "GradientDescent",
            "lag-wk": "LagWorker",
            "lag-ps": "LagServer",
            "chb-charge": "ChargeAwareHeavyBall",
            "dcgd": "CompressedDescent",
            "distributed-iht": "DistributedIHT",
            "fed-ht": "FedHT",
            "fediter-ht": "FedIterHT",
            "fedgradmp": "FedGradMP",
            "fedavg": "FedAvg",
            "fedprox": "FedProx",
            "fedexprox": "FedExProx",
            "fednova": "FedNova",
            "ditto": "Ditto",
            "pfedme": "PFedMe",
            "apfl": "APFL",
            "scaffold": "Scaffold",
            "scaffnew": "Scaffnew",
            "fedopt": "FedOpt",
            "fedavgm": "FedAvgM",
            "fedadagrad": "FedAdagrad",
            "fedadam": "FedAdam",
            "fedyogi": "FedYogi",
            "diloco": "DiLoCo",
            "streaming-diloco": "StreamingDiLoCo",
            "fedasync": "FedAsync",
            "fedbuff": "FedBuff",
            "fedmid": "FedMid",
            "fed-dual-avg": "FedDualAvg",
            "fast-fedda": "FastFedDA",
            "c-fedda": "CFedDA",
            "mc-fedda": "MCFedDA",
            "fedsgm": "FedSGM",
            "fedsgm-stale": "StaleFedSGM",
            "fedcom": "FedCom",
            "fedcomgate": "FedComGate",
            "ef21": "EF21",
            "diana": "Diana",
            "marina": "Marina",
            "pp-marina": "PPMarina",
            "marina-p": "MarinaP",
            "signsgd": "SignSGD",
            "d-psgd": "DPSGD",
            "dfedavg": "DFedAvg",
            "extra": "Extra",
            "nids": "Nids",
            "diging": "Diging",
            "choco-sgd": "ChocoSgd",
            "sparq-sgd": "SparqSgd",
            "cola": "Cola",
            "coke": "Coke",
            "ad-psgd": "ADPSGD",
            "sgp": "StochasticGradientPush",
            "gossip": "Gossip",
            "pairwise-gossip": "PairwiseGossip",
            "choco-gossip": "ChocoGossip",
            "push-sum": "PushSum",
        },
    ),
    Algorithm,
)
"""Every algorithm that a scenario can name by its kind."""

__all__ = [
    "ADPSGD",
    "ALGORITHMS",
    "APFL",
    "DPSGD",
    "EF21",
    "Algorithm",
    "Arrivals",
    "CFedDA",
    "CensoredHeavyBall",
    "ChargeAwareHeavyBall",
    "ChocoGossip",
    "ChocoSgd",
    "Coke",
    "Cola",
    "CompressedDescent",
    "Concern",
    "DFedAvg",
    "DiLoCo",
    "Diana",
    "Diging",
    "DistributedIHT",
    "Ditto",
    "Extra",
    "FastFedDA",
    "FedAdagrad",
    "FedAdam",
    "FedAsync",
    "FedAvg",
    "FedAvgM",
    "FedBuff",
    "FedCom",
    "FedComGate",
    "FedDualAvg",
    "FedExProx",
    "FedGradMP",
    "FedHT",
    "FedIterHT",
    "FedMid",
    "FedNova",
    "FedOpt",
    "FedProx",
    "FedSGM",
    "FedYogi",
    "Gossip",
    "GradientDescent",
    "HeavyBall",
    "LagServer",
    "LagWorker",
    "LazyGradient",
    "MCFedDA",
    "Marina",
    "MarinaP",
    "Nids",
    "PFedMe",
    "PPMarina",
    "PairwiseAlgorithm",
    "PairwiseGossip",
    "PeerAlgorithm",
    "ProblemInfo",
    "PushSum",
    "Scaffnew",
    "Scaffold",
    "SendsModels",
    "SignSGD",
    "SparqSgd",
    "StaleFedSGM",
    "StepSize",
    "StochasticGradientPush",
    "StreamingDiLoCo",
]
