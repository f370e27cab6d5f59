"""Which class a sample belongs to: labels 0, 1, ..., judged by how many are right."""

from dataclasses import dataclass

from torch import Tensor

from skerry.kernels import fused
from skerry.tasks import losses, softmax
from skerry.tasks.task import Task


@dataclass(frozen=True)
class Classification(Task):
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
            return softmax.loss_and_gradient(Z_nlcb, y_nb, scale_l)
        return super().loss_and_gradient(Z_nlcb, y_nb, scale_l)

    def judged(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        return (guesses(outputs_mn) == y_n).to(outputs_mn.dtype)

    def sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        right = (guesses(outputs_mn) == y_n).sum(dim=1).to(outputs_mn.dtype)
        if self.loss_name == "cross_entropy":
            loss = softmax.cross_entropy(outputs_mn, y_n) * len(y_n)
        else:
            loss = super().judged(outputs_mn, y_n).sum(dim=1)
        return {"loss": loss, "right": right} | self._score_sums(outputs_mn, y_n)

    def measures(self, sums: dict[str, Tensor], y_n: Tensor) -> dict[str, Tensor]:
        return super().measures(sums, y_n) | {"accuracy": 100 * sums["right"] / len(y_n)}


def guesses(scores_mnc: Tensor) -> Tensor:
    """The class with the highest score, [m, N]."""
    if fused.runs_on(scores_mnc):
        from skerry.kernels.activations import predicted_classes

        return predicted_classes(scores_mnc.mT)
    # max(...).indices, because argmax over a strided dimension is ten times slower on a CPU.
    return scores_mnc.max(dim=2).indices


USUAL = Classification("cross_entropy", losses.cross_entropy)
