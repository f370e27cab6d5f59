"""Who talks to whom: graphs, mixing matrices, and the fleet that yields W(t) round by round."""

from skerry.network.contraction import MixingParameters
from skerry.network.fleet import Block, Fleet, build_fleet, fingerprint
from skerry.network.graph_files import read_graph
from skerry.network.mixing import mixing_parameter, verify
from skerry.network.sequence import GraphSequence

__all__ = [
    "Block",
    "Fleet",
    "GraphSequence",
    "MixingParameters",
    "build_fleet",
    "fingerprint",
    "mixing_parameter",
    "read_graph",
    "verify",
]
