"""Flower's simulation: a ServerApp with FedAvg, a ClientApp, and Ray workers of one core each.

`flwr run` hands the same two apps to the same simulation runtime, but leaves a background service
behind and may fetch packages; `run_simulation` starts nothing that outlives it.
"""

import os

from client_app import FOLDER
from client_app import app as client_app
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from networks import initial_network
from peer_job import WARM_UP, Turn

turn = Turn.from_command_line()
os.environ[FOLDER] = str(turn.folder)  # the workers inherit it
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    devices = turn.job.devices
    # Round for round as many as there are: every device takes part.
    strategy = FedAvg(
        fraction_train=1.0,
        fraction_evaluate=0.0,
        min_train_nodes=devices,
        min_available_nodes=devices,
    )
    arrays = ArrayRecord(initial_network(turn.folder).state_dict())
    arrays = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=WARM_UP).arrays
    turn.warm()
    arrays = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=turn.job.rounds).arrays
    turn.stop()
    final = {name: tensor.numpy() for name, tensor in arrays.to_torch_state_dict().items()}
    turn.answer(final, packages=["flwr", "ray", "torch", "numpy"])


if __name__ == "__main__":
    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=turn.job.devices,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
