"""Networks: graphs, mixing matrices, and the fleet that gives W(t) round by round."""

from skerry.network.contraction import MixingParameters, mixing_parameter
from skerry.network.fleet import Fleet, MixingBlock, build_fleet, graph_fingerprint
from skerry.network.graphs import GraphSequence, read_graph
from skerry.network.mixing import check_mixing_matrix

__all__ = [
    "Fleet",
    "GraphSequence",
    "MixingBlock",
    "MixingParameters",
    "build_fleet",
    "check_mixing_matrix",
    "graph_fingerprint",
    "mixing_parameter",
    "read_graph",
]
