"""Server optimizers: the update of the sampled devices' average before the server delivers it.

The memory of an optimizer is a dict of tensors `[L, d]` that are changed in place: `start` returns
it for some lanes, and `deliver` receives those of the same lanes. The options of an optimizer are
the keyword-only parameters of `deliver`.
"""

import torch
from torch import Tensor

Memory = dict[str, Tensor]

ADAPTIVE_LEARNING_RATE = 0.1
"""The default learning rate of fedadam and fedyogi: the length of a step in each parameter."""


class FedAvg:
    """Deliver the average itself."""

    @staticmethod
    def start(x0_ld: Tensor) -> Memory:
        return {}

    @staticmethod
    def deliver(memory: Memory, average_ld: Tensor) -> Tensor:
        return average_ld


class FedAvgM:
    """Server momentum: v <- m v + (1 - dampening) (y - xhat), y <- y - learning_rate v, deliver y.

    y is the model delivered last, with which the server compares the new average. Under S2S most of
    the sampled devices have not received y, and a y other than their average moves the average.
    """

    @staticmethod
    def start(x0_ld: Tensor) -> Memory:
        return {"y": x0_ld.clone(), "v": x0_ld.new_zeros(x0_ld.shape)}

    @staticmethod
    def deliver(
        memory: Memory,
        average_ld: Tensor,
        *,
        momentum: float,
        dampening: float,
        learning_rate: float | None,
    ) -> Tensor:
        y, v = memory["y"], memory["v"]
        v.mul_(momentum).add_(y - average_ld, alpha=1 - dampening)
        return y.sub_(v, alpha=1.0 if learning_rate is None else learning_rate)


class FedAvgMOfAverages:
    """Momentum of averages: u <- m u + (xhat - the average before), y = xhat + learning_rate m u.

    It compares averages with averages, so S2S moves the average of all only by the momentum; where
    averages do not change, it delivers them as FedAvg does.
    """

    @staticmethod
    def start(x0_ld: Tensor) -> Memory:
        return {"last": x0_ld.clone(), "u": x0_ld.new_zeros(x0_ld.shape)}

    @staticmethod
    def deliver(
        memory: Memory, average_ld: Tensor, *, momentum: float, learning_rate: float | None
    ) -> Tensor:
        last, u = memory["last"], memory["u"]
        u.mul_(momentum).add_(average_ld - last)
        last.copy_(average_ld)
        return average_ld.add(u, alpha=momentum * (1.0 if learning_rate is None else learning_rate))


class FedAdam:
    """D = xhat - y; m <- momentum m + (1 - momentum) D; v <- second_momentum v +
    (1 - second_momentum) D^2; y <- y + learning_rate m / (sqrt(v) + smallest), deliver y."""

    @staticmethod
    def start(x0_ld: Tensor) -> Memory:
        return {"y": x0_ld.clone(), "m": torch.zeros_like(x0_ld), "v": torch.zeros_like(x0_ld)}

    @classmethod
    def deliver(
        cls,
        memory: Memory,
        average_ld: Tensor,
        *,
        momentum: float,
        second_momentum: float,
        smallest: float,
        learning_rate: float | None,
    ) -> Tensor:
        y, m, v = memory["y"], memory["m"], memory["v"]
        away = average_ld - y
        m.lerp_(away, 1 - momentum)
        cls._follow(v, away.square(), 1 - second_momentum)
        step = ADAPTIVE_LEARNING_RATE if learning_rate is None else learning_rate
        return y.addcdiv_(m, v.sqrt().add_(smallest), value=step)

    @staticmethod
    def _follow(v: Tensor, square: Tensor, part: float) -> None:
        v.lerp_(square, part)


class FedYogi(FedAdam):
    """FedAdam with v <- v - (1 - second_momentum) D^2 sign(v - D^2): v falls more slowly."""

    @staticmethod
    def _follow(v: Tensor, square: Tensor, part: float) -> None:
        v.sub_(part * square * torch.sign(v - square))
