"""Flower's ClientApp, laid out as `flwr new` does: a module that the worker processes import."""

import os
from functools import cache
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from networks import initial_network
from peer_job import Job, device_data
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOLDER = "PEER_JOB_FOLDER"
app = ClientApp()


@cache
def _the_job() -> tuple[Job, torch.Tensor, torch.Tensor, nn.Module]:
    folder = Path(os.environ[FOLDER])
    x, y = (torch.from_numpy(array.copy()) for array in device_data(folder))
    return Job.load(folder), x, y, initial_network(folder)


@app.train()
def train(message: Message, context: Context) -> Message:
    job, x, y, model = _the_job()
    device = int(context.node_config["partition-id"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loader = DataLoader(TensorDataset(x[device], y[device]), batch_size=job.batch, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=job.stepsize)
    inputs, labels = next(iter(loader))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    metrics = {"train_loss": loss.item(), "num-examples": job.samples}
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)}
    return Message(content=RecordDict(content), reply_to=message)
