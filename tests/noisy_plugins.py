"""Plug-ins of every kind that write everywhere they can, to see what counts; and that look."""

import torch

from skerry.engine.compression import Compression
from skerry.methods.method import Method, Traffic

SEEN: dict[str, set[int]] = {}
"""By kind, the lengths of the vectors that the plug-ins received."""


def saw(kind, *arrays):
    SEEN.setdefault(kind, set()).update(array.shape[-1] for array in arrays)


def noise(X_nld, context):
    """The same numbers for every lane, whatever the number of parameters is padded to."""
    numbers = context.random("noise").normal(size=(len(X_nld), 1, X_nld.shape[-1]))
    return torch.from_numpy(numbers).to(X_nld)


def noisy_primitive(X_nld, sampled_k, delivered_ld, *, context):
    saw("primitive", X_nld, delivered_ld)
    X_nld[:] = noise(X_nld, context)
    return len(X_nld)


class NoisyOptimizer:
    @staticmethod
    def start(x0_ld):
        saw("server optimizer", x0_ld)
        return {"count": torch.zeros_like(x0_ld)}

    @staticmethod
    def deliver(memory, average_ld, *, context):
        saw("server optimizer", average_ld, memory["count"])
        memory["count"] += 1
        return noise(average_ld[None], context)[0] * memory["count"]


def noisy_steps(gradient, state, *, context):
    saw("local optimizer", gradient, state["count"])
    state["count"] += 1
    return gradient + noise(gradient[:1], context) * state["count"]


noisy_steps.keeps = ("count",)


class NoisyMethod(Method):
    mixed_arrays = 2

    def start(self, X_nld):
        saw("method", X_nld)
        return {"y": torch.ones_like(X_nld), "s": torch.ones_like(X_nld[0])}

    def after_step(self, lanes, before):
        saw("method", lanes.X_nld, *lanes.state.values())
        lanes.X_nld.add_(noise(lanes.X_nld[:1], lanes.context))
        lanes.state["y"] += lanes.X_nld

    def mix(self, lanes, mix):
        mix(lanes.X_nld)
        mix.collect(lanes.state["y"], lanes.X_nld, 0.5 * torch.ones_like(lanes.eta_l1))

    def aggregate(self, lanes, server):
        reached = server.deliver(lanes.X_nld)
        lanes.state["s"] += lanes.X_nld[0]
        server.collect(lanes.state["y"], lanes.X_nld, 0.1 * torch.ones_like(lanes.eta_l1))
        lanes.X_nld.add_(lanes.state["s"], alpha=0.1)
        return Traffic(len(server.sampled_k), reached)


class NoisyCompression(Compression):
    quality = 0.5

    def compress(self, V_rld, draws, *, context):
        saw("compression", V_rld, draws.numbers(), draws.real_d)
        # Zeros stay zeros, and the numbers are the draws of parameters only.
        V_rld.mul_(draws.numbers()[:, None] * (V_rld != 0).any())


def own_disagreement(models_nd, *, context):
    saw("measure", models_nd)
    assert sum(p.of(models_nd)[0].numel() for p in context.parameters) == models_nd.shape[1]
    assert torch.isfinite(context.losses(models_nd)).all()
    assert len(context.outputs(models_nd[:2])) == 2
    return (models_nd - models_nd.mean(0)).square().sum() / len(models_nd)
