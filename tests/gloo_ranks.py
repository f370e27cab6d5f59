"""Ranks as processes of their own over gloo, forked from a test: nothing is imported anew."""

import multiprocessing
import os
import socket

import torch

from skerry.engine.ranks.exchange import TorchCommunicator


def forked(ranks, work):
    """What `work(exchange)` gives on each rank: plain values, or tensors."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    context = multiprocessing.get_context("fork")
    ends = [context.Pipe(duplex=False) for _ in range(ranks)]
    processes = [
        context.Process(target=_rank, args=(rank, ranks, port, end, work))
        for rank, (_, end) in enumerate(ends)
    ]
    for process in processes:
        process.start()
    try:
        return [_heard(end) for end, _ in ends]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _rank(rank, ranks, port, end, work):
    told = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in told.items()})
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    exchange = TorchCommunicator(torch.device("cpu"))
    end.send(work(exchange))
    exchange.add(torch.zeros(1))  # nobody leaves before all are done
    os._exit(0)


def _heard(end):
    assert end.poll(60), "a rank does not answer"
    return end.recv()
