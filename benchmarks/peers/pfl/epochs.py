"""FedAvg with local epochs in pfl's own code, for `fedavg_epochs.py`: `epochs.py JOB ANSWER`.

pfl goes through a user's samples in the order in which they lie, so the data set shuffles them
before every pass. Its cohorts come from a callable: here K users, each at most once in a round.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from torch import nn


class Network(nn.Sequential):
    """pfl asks a module for `loss` and `metrics`."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
        return {}


class Shuffled(Dataset):
    """A user's samples, in a new order in every pass."""

    def iter(self, batch_size: int | None):
        x, y = self.raw_data
        for rows in torch.randperm(len(y)).split(batch_size or len(y)):
            yield x[rows], y[rows]


def main(job: Path, answer: Path) -> None:
    numbers = json.loads((job / "job.json").read_text())
    torch.set_num_threads(1)
    torch.manual_seed(numbers["seed"])
    rng = np.random.default_rng(numbers["seed"])
    with np.load(job / "data.npz") as arrays:
        x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
        sizes = arrays["sizes"].tolist()
    users = [Shuffled(raw_data=own) for own in zip(x.split(sizes), y.split(sizes), strict=True)]
    waiting: list[int] = []

    def next_user() -> int:
        if not waiting:
            waiting.extend(rng.permutation(len(users))[: numbers["sampled"]].tolist())
        return waiting.pop()

    network = Network(*(getattr(nn, kind)(*sizes) for kind, *sizes in numbers["layers"]))
    with np.load(job / "initial.npz") as arrays:
        network.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    model = FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=numbers["rounds"],
            evaluation_frequency=numbers["rounds"] + 1,
            train_cohort_size=numbers["sampled"],
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(
            training_data=FederatedDataset(users.__getitem__, next_user),
            val_data=None,
            postprocessors=[WeightByDatapoints()],
        ),
        model=PyTorchModel(
            network,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
        ),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=numbers["epochs"],
            local_learning_rate=numbers["stepsize"],
            local_batch_size=numbers["batch"],
        ),
        callbacks=[],
    )
    final = model.pytorch_model.state_dict()
    np.savez(answer / "final.npz", **{name: tensor.numpy() for name, tensor in final.items()})
    versions = {name: version(name) for name in ("pfl", "torch", "numpy")}
    (answer / "versions.json").write_text(json.dumps(versions))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
