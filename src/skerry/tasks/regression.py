"""Which numbers belong to a sample: one or several, judged by the loss that is asked for."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skerry.tasks.task import Task

CLOSED = ("mse", "mae", "huber")
"""The losses that are known as functions of single differences."""


@dataclass(frozen=True)
class Regression(Task):
    name = "regression"

    def curvature(self, outputs: int) -> float | None:
        return {"mse": 2 / outputs, "huber": 1 / outputs}.get(self.loss_name)

    def targets(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """[N, outputs], also where that is one: a loss never meets [B, 1] beside [B]."""
        return y.to(dtype).view(len(y), -1)

    def loss_and_gradient(
        self, Z_nlcb: Tensor, y_nb: Tensor, scale_l: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.loss_name not in CLOSED:
            return super().loss_and_gradient(Z_nlcb, y_nb, scale_l)
        away = Z_nlcb - y_nb.mT.unsqueeze(1)
        losses, slopes = self._loss_and_slope(away)
        scale = (scale_l / Z_nlcb.shape[2]).view(1, -1, 1, 1)
        return losses.mean(dim=(2, 3)), slopes * scale

    def judged(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        if self.loss_name not in CLOSED:
            return super().judged(outputs_mn, y_n)
        return self._loss_and_slope(outputs_mn - y_n)[0].mean(dim=2)

    def sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        squares = (outputs_mn - y_n).square().mean(dim=2).sum(dim=1)
        return super().sums(outputs_mn, y_n) | {"squares": squares}

    def measures(self, sums: dict[str, Tensor], y_n: Tensor) -> dict[str, Tensor]:
        mean_square = sums["squares"] / len(y_n)
        variance = (y_n - y_n.mean(dim=0)).square().mean()
        variance = variance.masked_fill(variance == 0, torch.nan)  # nothing to explain: left out
        more = {"rmse": mean_square.sqrt(), "r2": 1 - mean_square / variance}
        return super().measures(sums, y_n) | more

    def _loss_and_slope(self, away: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each difference, and its derivative."""
        if self.loss_name == "mse":
            return away.square(), 2 * away
        if self.loss_name == "mae":
            return away.abs(), away.sign()
        inside = away.clamp(-self.delta, self.delta)
        return inside * (away - 0.5 * inside), inside
