"""pfl: a process per core, told of each other by environment variables, as its guide to fast
simulations sets it up. The variant is the number of processes."""

import os
import socket
import subprocess
import sys

import numpy as np
import torch
from networks import NETWORKS, as_arrays
from peer_job import WARM_UP, Turn, device_data, initial_model
from torch import nn


def addresses(processes: int) -> str:
    """Free ports on loopback, in the form pfl reads."""
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(processes)]
    found = ",".join(f"127.0.0.1:{server.getsockname()[1]}" for server in with_ports)
    for server in with_ports:
        server.close()
    return found


def launch_others(processes: int) -> list[subprocess.Popen]:
    """The same script once more for every further process; this one is the first."""
    os.environ |= {"PFL_WORKER_ADDRESSES": addresses(processes), "PFL_WORKER_RANK": "0"}
    return [
        subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"PFL_WORKER_RANK": str(i)})
        for i in range(1, processes)
    ]


def with_loss(network: nn.Sequential) -> nn.Module:
    """pfl asks a module for `loss` and `metrics`."""

    class Network(nn.Sequential):
        def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self(x), y)

        def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
            return {}

    return Network(*network)


def run(turn: Turn) -> None:
    # pfl reads its environment variables when it is imported.
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Clock(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            if central_iteration + 1 == WARM_UP:
                turn.warm()
            if central_iteration + 1 == turn.job.all_rounds:
                turn.stop()
            return False, Metrics()

    job = turn.job
    x, y = (torch.from_numpy(array.copy()) for array in device_data(turn.folder))

    def minibatch(device: int) -> Dataset:
        """pfl walks through a user's samples in order: to draw them is up to the data set."""
        rows = torch.randint(job.samples, (job.batch,))
        return Dataset(raw_data=(x[device, rows], y[device, rows]))

    network = with_loss(NETWORKS[job.name]())
    arrays = initial_model(turn.folder)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    np.random.seed(0)  # noqa: NPY002 (pfl draws cohorts from it, the same in all processes)
    sampler = get_user_sampler("minimize_reuse", list(range(job.devices)))
    model = FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=job.all_rounds,
            evaluation_frequency=job.all_rounds + 1,
            train_cohort_size=job.devices,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=FederatedDataset(minibatch, sampler), val_data=None),
        model=PyTorchModel(
            network,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
        ),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=None,
            local_num_steps=1,
            local_learning_rate=job.stepsize,
            local_batch_size=job.batch,
        ),
        callbacks=[Clock()],
    )
    if os.environ.get("PFL_WORKER_RANK", "0") == "0":
        turn.answer(as_arrays(model.pytorch_model), packages=["pfl", "torch", "numpy"])


def main() -> None:
    turn = Turn.from_command_line()
    processes = int(turn.variant)
    others = [] if "PFL_WORKER_RANK" in os.environ else launch_others(processes)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))
    run(turn)
    for other in others:
        other.wait()


if __name__ == "__main__":
    main()
