"""fluke: FedAVG through its Python API, everything in memory.

Its gossip is no ring mixing: a device sends to one random neighbour, takes over what it gets, and
sits out a round without mail. So it has no row beside the ring.
"""

from importlib.metadata import version

import torch

if "+cpu" in version("torch") and "+cpu" not in version("torchvision"):
    # PyPI's torchvision is built for CUDA: its compiled part does not load beside a CPU build of
    # PyTorch. fluke only imports it, and that works once these operators have a name.
    _operators = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _operators.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.utils import FederationObserver
from networks import as_arrays, initial_network
from peer_job import WARM_UP, Turn, device_data


class Clock(FederationObserver):
    def __init__(self, turn: Turn):
        self._turn = turn

    def end_round(self, round: int) -> None:
        if round == WARM_UP:
            self._turn.warm()
        if round == self._turn.job.all_rounds:
            self._turn.stop()


def loaders(turn: Turn) -> list[FastDataLoader]:
    """fluke's own loader, asked for a single batch an epoch."""
    job = turn.job
    x, y = (torch.from_numpy(array.copy()) for array in device_data(turn.folder))
    return [
        FastDataLoader(
            x[i],
            y[i],
            num_labels=job.classes,
            batch_size=job.batch,
            shuffle=True,
            single_batch=True,
        )
        for i in range(job.devices)
    ]


def main() -> None:
    turn = Turn.from_command_line()
    job = turn.job
    environment = FlukeENV()
    environment.set_seed(0)
    environment.set_device("cpu")
    environment.set_inmemory(True)
    environment.set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    nobody = [None] * job.devices
    container = DummyDataContainer(loaders(turn), nobody, None, job.classes)
    splitter = DataSplitter(container, distribution="iid")
    client = DDict(
        batch_size=job.batch,
        local_epochs=1,
        loss="CrossEntropyLoss",
        optimizer=DDict(name="SGD", lr=job.stepsize),
        scheduler=DDict(name="StepLR", step_size=1, gamma=1),
    )
    settings = DDict(client=client, server=DDict(), model=initial_network(turn.folder))
    algorithm = FedAVG(job.devices, splitter, settings)
    algorithm.set_callbacks(Clock(turn))
    algorithm.run(job.all_rounds, eligible_perc=1.0)
    turn.answer(as_arrays(algorithm.server.model), packages=["fluke-fl", "torch", "numpy"])


if __name__ == "__main__":
    main()
