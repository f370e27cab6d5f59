"""Server optimizers: what the server makes of the sampled devices' average before delivering it.

What an optimizer remembers are named tensors `[L, d]`, changed in place: `start` gives them for
the lanes it serves, `deliver` sees the same lanes again. Its options are those of `deliver`.
"""

from torch import Tensor

from skerry.experiment import Server

Memory = dict[str, Tensor]


class FedAvg:
    """Deliver the average itself."""

    @staticmethod
    def start(x0_ld: Tensor) -> Memory:
        return {}

    @staticmethod
    def deliver(memory: Memory, average_ld: Tensor, server: Server) -> Tensor:
        return average_ld


class FedAvgM:
    """Server momentum: v <- m v + (y - xhat), y <- y - v, deliver y.

    y is the model delivered last; the server compares what comes back with it.
    """

    @staticmethod
    def start(x0_ld: Tensor) -> Memory:
        return {"y": x0_ld.clone(), "v": x0_ld.new_zeros(x0_ld.shape)}

    @staticmethod
    def deliver(memory: Memory, average_ld: Tensor, server: Server, *, momentum: float) -> Tensor:
        y, v = memory["y"], memory["v"]
        v.mul_(momentum).add_(y - average_ld)
        return y.sub_(v)
