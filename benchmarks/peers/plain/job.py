"""What one writes first: a module and an optimizer per device, and a loop over them."""

import torch
from networks import as_arrays, initial_network
from peer_job import WARM_UP, Turn, device_data
from torch import nn


def server_average(flat_nd: torch.Tensor) -> torch.Tensor:
    return flat_nd.mean(dim=0).repeat(len(flat_nd), 1)  # a copy for every device


def ring_mixing(flat_nd: torch.Tensor) -> torch.Tensor:
    """Every device averages with its two neighbours."""
    return (flat_nd + flat_nd.roll(1, dims=0) + flat_nd.roll(-1, dims=0)) / 3


MIXINGS = {"average": server_average, "ring": ring_mixing}


def main() -> None:
    turn = Turn.from_command_line()
    job, mixing = turn.job, MIXINGS[turn.variant]
    x, y = (torch.from_numpy(array.copy()) for array in device_data(turn.folder))
    models = [initial_network(turn.folder) for _ in range(job.devices)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=job.stepsize) for model in models]
    loss_of = nn.CrossEntropyLoss()

    for t in range(job.all_rounds):
        if t == WARM_UP:
            turn.warm()
        for i, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            batch = torch.randint(job.samples, (job.batch,))
            optimizer.zero_grad()
            loss_of(model(x[i, batch]), y[i, batch]).backward()
            optimizer.step()
        with torch.no_grad():
            flat = [nn.utils.parameters_to_vector(model.parameters()) for model in models]
            for model, mixed in zip(models, mixing(torch.stack(flat)), strict=True):
                nn.utils.vector_to_parameters(mixed, model.parameters())
    turn.stop()

    flat = [nn.utils.parameters_to_vector(model.parameters()) for model in models]
    nn.utils.vector_to_parameters(torch.stack(flat).mean(dim=0), models[0].parameters())
    turn.answer(as_arrays(models[0]), packages=["torch", "numpy"])


if __name__ == "__main__":
    main()
