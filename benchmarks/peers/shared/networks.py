"""The jobs' networks in PyTorch, for every contestant that uses it."""

from pathlib import Path

import torch
from peer_job import Job, initial_model
from torch import nn


def linear() -> nn.Module:
    """Softmax regression, 7,850 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def cnn() -> nn.Module:
    """The CIFAR-10 network of the paper's appendix, 3,353,034 parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1600, 2048),
        nn.ReLU(),
        nn.Linear(2048, 10),
    )


NETWORKS = {"linear": linear, "cnn": cnn}


def initial_network(folder: Path) -> nn.Module:
    network = NETWORKS[Job.load(folder).name]()
    arrays = initial_model(folder)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return network


def as_arrays(network: nn.Module) -> dict:
    return {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
