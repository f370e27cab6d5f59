"""The three learning tasks: classification, regression, and prediction of the next token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skerry.kernels import fused
from skerry.tasks.losses import cross_entropy
from skerry.tasks.task import LearningTask


@dataclass(frozen=True)
class Classification(LearningTask):
    """Which class a sample belongs to: labels 0, 1, ..., judged by accuracy."""

    name = "classification"
    judged_by = "accuracy"
    in_percent = True

    def curvature(self, outputs: int) -> float | None:
        """No eigenvalue of diag(P) - P P^T exceeds 1/2."""
        return 0.5 if self.loss_name == "cross_entropy" else None

    def loss_and_gradient(
        self, Z_nlcb: Tensor, y_nb: Tensor, scale_l: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.loss_name == "cross_entropy":
            return _softmax_loss_and_gradient(Z_nlcb, y_nb, scale_l)
        return super().loss_and_gradient(Z_nlcb, y_nb, scale_l)

    def judge(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        return (predict_classes(outputs_mn) == y_n).to(outputs_mn.dtype)

    def sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        right = (predict_classes(outputs_mn) == y_n).sum(dim=1).to(outputs_mn.dtype)
        if self.loss_name == "cross_entropy":
            loss = _mean_cross_entropy(outputs_mn, y_n) * len(y_n)
        else:
            loss = super().judge(outputs_mn, y_n).sum(dim=1)
        return {"loss": loss, "right": right} | self._score_sums(outputs_mn, y_n)

    def measures(self, sums: dict[str, Tensor], y_n: Tensor) -> dict[str, Tensor]:
        return super().measures(sums, y_n) | {"accuracy": 100 * sums["right"] / len(y_n)}


CLASSIFICATION = Classification("cross_entropy", cross_entropy)
"""The task of a model that is used without data."""


def predict_classes(scores_mnc: Tensor) -> Tensor:
    """The class with the highest score, [m, N]."""
    if fused.runs_on(scores_mnc):
        from skerry.kernels.activations import predicted_classes

        return predicted_classes(scores_mnc.mT)
    # max(...).indices, because argmax over a strided dimension is ten times slower on a CPU.
    return scores_mnc.max(dim=2).indices


def _softmax_loss_and_gradient(
    Z_nlcb: Tensor, y_nb: Tensor, scale_l: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean losses [n, L] of scores [n, L, classes, B], and scale_l (softmax(Z) - onehot(y)).

    Z is overwritten. Samples come last, because the softmax is fastest along contiguous memory.
    """
    n, lanes, _, size = Z_nlcb.shape
    if fused.runs_on(Z_nlcb):
        from skerry.kernels.activations import softmax_gradient

        return softmax_gradient(Z_nlcb.flatten(0, 1), y_nb, scale_l), Z_nlcb
    labels = y_nb.view(n, 1, 1, size).expand(n, lanes, 1, size)
    log_P = torch.log_softmax(Z_nlcb, dim=2)
    losses = -log_P.gather(2, labels).mean(dim=(2, 3))
    P = log_P.exp_()
    P.scatter_add_(2, labels, P.new_full((1,), -1.0).expand_as(labels))
    return losses, P.mul_(scale_l.view(1, lanes, 1, 1))


def _mean_cross_entropy(scores_mnc: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy [m] of scores [m, N, classes] on labels [N]."""
    if fused.runs_on(scores_mnc):
        from skerry.kernels.activations import cross_entropies

        return cross_entropies(scores_mnc.mT, y)
    labels = y.view(1, -1, 1).expand(len(scores_mnc), -1, 1)
    return -torch.log_softmax(scores_mnc, dim=2).gather(2, labels).mean(dim=(1, 2))


@dataclass(frozen=True)
class Regression(LearningTask):
    """Which numbers belong to a sample: one or several, judged by the loss."""

    name = "regression"
    losses = ("mse", "mae", "huber")

    def curvature(self, outputs: int) -> float | None:
        return {"mse": 2 / outputs, "huber": 1 / outputs}.get(self.loss_name)

    def targets(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """Targets [N, outputs], also for one output: a loss never gets [B, 1] and [B]."""
        return y.to(dtype).view(len(y), -1)

    def loss_and_gradient(
        self, Z_nlcb: Tensor, y_nb: Tensor, scale_l: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.loss_name not in self.losses:
            return super().loss_and_gradient(Z_nlcb, y_nb, scale_l)
        error = Z_nlcb - y_nb.mT.unsqueeze(1)
        losses, slopes = self._loss_and_slope(error)
        scale = (scale_l / Z_nlcb.shape[2]).view(1, -1, 1, 1)
        return losses.mean(dim=(2, 3)), slopes * scale

    def judge(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        if self.loss_name not in self.losses:
            return super().judge(outputs_mn, y_n)
        return self._loss_and_slope(outputs_mn - y_n)[0].mean(dim=2)

    def sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        squares = (outputs_mn - y_n).square().mean(dim=2).sum(dim=1)
        return super().sums(outputs_mn, y_n) | {"squares": squares}

    def measures(self, sums: dict[str, Tensor], y_n: Tensor) -> dict[str, Tensor]:
        mean_square = sums["squares"] / len(y_n)
        variance = (y_n - y_n.mean(dim=0)).square().mean()
        variance = variance.masked_fill(variance == 0, torch.nan)  # constant targets: left out
        more = {"rmse": mean_square.sqrt(), "r2": 1 - mean_square / variance}
        return super().measures(sums, y_n) | more

    def _loss_and_slope(self, error: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each error, and its derivative."""
        if self.loss_name == "mse":
            return error.square(), 2 * error
        if self.loss_name == "mae":
            return error.abs(), error.sign()
        inside = error.clamp(-self.delta, self.delta)
        return inside * (error - 0.5 * inside), inside


@dataclass(frozen=True)
class Tokens(LearningTask):
    """Which token comes next, at every position of a text: judged by the loss."""

    name = "tokens"

    def output_shape(self, input_shape: tuple[int, ...], outputs: int) -> tuple[int, ...]:
        return (*input_shape, outputs)

    def judge(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        if self.loss_name != "cross_entropy":
            return super().judge(outputs_mn, y_n)
        return _token_cross_entropy(outputs_mn, y_n)

    def sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        right = (outputs_mn.max(dim=-1).indices == y_n).to(outputs_mn.dtype).mean(dim=2)
        found = super().sums(outputs_mn, y_n) | {"right": right.sum(dim=1)}
        known = self.loss_name == "cross_entropy"
        entropy = found["loss"] if known else _token_cross_entropy(outputs_mn, y_n).sum(dim=1)
        return found | {"entropy": entropy}

    def measures(self, sums: dict[str, Tensor], y_n: Tensor) -> dict[str, Tensor]:
        more = {
            "perplexity": torch.exp(sums["entropy"] / len(y_n)),
            "token_accuracy": 100 * sums["right"] / len(y_n),
        }
        return super().measures(sums, y_n) | more


def _token_cross_entropy(scores_mnlv: Tensor, y_nl: Tensor) -> Tensor:
    """The mean cross-entropy of the tokens of each sample, [m, N]."""
    tokens = y_nl.unsqueeze(-1).expand(len(scores_mnlv), -1, -1, 1)
    return -torch.log_softmax(scores_mnlv, dim=-1).gather(-1, tokens).mean(dim=(2, 3))
