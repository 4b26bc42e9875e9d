"""The algorithms: one file a family of methods, each written as its paper's box."""

from fedsim.algorithms.adaptive import FedAdagrad, FedAdam, FedAvgM, FedOpt, FedYogi
from fedsim.algorithms.asynchronous import FedAsync, FedBuff
from fedsim.algorithms.averaging import (
    FedAvg,
    FedExProx,
    FedNova,
    FedProx,
)
from fedsim.algorithms.base import Algorithm, Arrivals, ProblemInfo, StepSize
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
from fedsim.blocks.registry import Registry

ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm",
    (
        CensoredHeavyBall,
        HeavyBall,
        LazyGradient,
        GradientDescent,
        LagWorker,
        LagServer,
        ChargeAwareHeavyBall,
        CompressedDescent,
        DistributedIHT,
        FedHT,
        FedIterHT,
        FedGradMP,
        FedAvg,
        FedProx,
        FedExProx,
        FedNova,
        Ditto,
        PFedMe,
        APFL,
        Scaffold,
        Scaffnew,
        FedOpt,
        FedAvgM,
        FedAdagrad,
        FedAdam,
        FedYogi,
        DiLoCo,
        StreamingDiLoCo,
        FedAsync,
        FedBuff,
        FedMid,
        FedDualAvg,
        FastFedDA,
        CFedDA,
        MCFedDA,
        FedSGM,
        StaleFedSGM,
        FedCom,
        FedComGate,
        EF21,
        Diana,
        Marina,
        PPMarina,
        MarinaP,
        SignSGD,
        DPSGD,
        DFedAvg,
        Extra,
        Nids,
        Diging,
        ChocoSgd,
        SparqSgd,
        Cola,
        Coke,
        ADPSGD,
        StochasticGradientPush,
        Gossip,
        PairwiseGossip,
        ChocoGossip,
        PushSum,
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
