"""Which token comes next, at every place of a text: judged by the loss, told as perplexity."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skerry.tasks.task import Task


@dataclass(frozen=True)
class Tokens(Task):
    name = "tokens"

    def output_shape(self, input_shape: tuple[int, ...], outputs: int) -> tuple[int, ...]:
        return (*input_shape, outputs)

    def judged(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        if self.loss_name != "cross_entropy":
            return super().judged(outputs_mn, y_n)
        return _entropies(outputs_mn, y_n)

    def sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        right = (outputs_mn.max(dim=-1).indices == y_n).to(outputs_mn.dtype).mean(dim=2)
        found = super().sums(outputs_mn, y_n) | {"right": right.sum(dim=1)}
        usual = self.loss_name == "cross_entropy"
        entropy = found["loss"] if usual else _entropies(outputs_mn, y_n).sum(dim=1)
        return found | {"entropy": entropy}

    def measures(self, sums: dict[str, Tensor], y_n: Tensor) -> dict[str, Tensor]:
        more = {
            "perplexity": torch.exp(sums["entropy"] / len(y_n)),
            "token_accuracy": 100 * sums["right"] / len(y_n),
        }
        return super().measures(sums, y_n) | more


def _entropies(scores_mnlv: Tensor, y_nl: Tensor) -> Tensor:
    """The mean cross-entropy of a sample's tokens, [m, N]."""
    tokens = y_nl.unsqueeze(-1).expand(len(scores_mnlv), -1, -1, 1)
    return -torch.log_softmax(scores_mnlv, dim=-1).gather(-1, tokens).mean(dim=(2, 3))
