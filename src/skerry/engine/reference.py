"""Algorithm 1 line by line: a slow loop over devices, the oracle for the fast engine.

It shares with the fast engine the world (data, random draws) and the graph's W, and nothing of
the arithmetic: gradients come from autograd at one model, mixing is a sum over j, the primitives
are written out.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from skerry.config import schedules
from skerry.config.experiment import Experiment, Training
from skerry.config.schedules import Seen, When
from skerry.engine.reference_compression import CompressedGossip, CompressedPost
from skerry.engine.reference_methods import METHODS, reference_method
from skerry.engine.reference_parts import gradient, participants, weighted_sum
from skerry.engine.server_schedule import BY_ISLAND
from skerry.engine.world import World
from skerry.plugins import registry
from skerry.plugins.options import asks_context


def reference(world: World, experiment: Experiment) -> Iterator[Tensor]:
    """The models X[n, d] of one run after every round."""
    if experiment.method.name in METHODS:
        yield from reference_method(world, experiment)
        return
    training, server = experiment.training, experiment.server
    fleet = world.fleet_of(experiment)
    schedule = registry.resolve("schedule", training.schedule)
    told = training.options_for("schedule")
    x0 = world.initial()
    x = [x0.clone() for _ in range(world.n)]
    sleep = world.awake(experiment)
    sizes = world.partition.sizes.tolist()
    by_data = training.weights == "data"
    scale = [world.n * m / sum(sizes) if by_data else 1.0 for m in sizes]
    last = x0.clone()  # what the server delivered last
    memory = {"y": x0, "before": x0, **{name: torch.zeros_like(x0) for name in "mv"}}
    received = list(x)  # by each device last, for fedprox
    gossip = CompressedGossip(world, experiment, [x0]) if experiment.network.compresses else None
    post = CompressedPost(world, experiment) if server.compresses else None
    mu = experiment.method.mu if experiment.method.name == "fedprox" else 0.0
    kept = [{name: torch.zeros_like(x0) for name in "mv"} for _ in x]  # by local optimizers
    next_server, number = server.offset, 0
    seen: list[Seen] = []  # what the server could tell in earlier server rounds
    H, last_round = server.period, -1
    adapts = schedules.adapts(server, "beta", "sampled", "period")
    p = fleet.mixing_parameters().minimum if schedules.adapts(server, "beta") else 0.0
    p = 1 - (1 - p) ** experiment.network.gossip_steps

    for t in range(experiment.rounds):
        awake = [True] * world.n if sleep is None else sleep(t).tolist()
        if asks_context("schedule", training.schedule):
            told["context"] = world.context(t, number, options=training.options_for("schedule"))
        eta = training.stepsize * schedule(t, experiment.rounds, training, **told)
        stepped = list(x)
        for step in range(training.local_steps):
            indices, noise = world.batch_indices(t, step), world.noise_keys(t, step)
            count = t * training.local_steps + step + 1
            for i, x_i in enumerate(stepped):
                if awake[i]:
                    g = scale[i] * gradient(world, x_i, indices[i], noise[i])
                    d = _direction(training, kept[i], g + training.weight_decay * x_i, count)
                    stepped[i] = x_i - eta * d - eta * mu * (x_i - received[i])

        W = torch.from_numpy(fleet.matrix(t).toarray()).to(x0)
        if training.order == "adapt_then_mix":
            x = stepped
        moved = [stepped[i] - x[i] for i in range(world.n)]
        is_server_round = server.primitive != "none" and t == next_server
        mixes = experiment.network.mix_with_server or not is_server_round
        for step in range(experiment.network.gossip_steps if mixes else 0):
            mixed = [weighted_sum(W[:, i], x) for i in range(world.n)]
            x = mixed if gossip is None else gossip.mixed(x, W, t, step)
        x = [x[i] + moved[i] for i in range(world.n)]

        if is_server_round:
            known = (t, number, H, p, tuple(seen[-server.adapt_over :]))
            beta = {"s2s": 0.0, "s2a": 1.0}.get(server.primitive)
            beta = _scheduled(experiment, "beta", *known) if beta is None else beta
            K = round(_scheduled(experiment, "sampled", *known))
            away = torch.stack([(x_i - last).double().norm() for x_i in x]).numpy()
            sampled, weights = participants(world, experiment, t, number, K, away)
            if adapts and sampled:
                seen += _seen(world, experiment, x, sampled, awake, t - last_round)
            known = (t, number, H, p, tuple(seen[-server.adapt_over :]))
            H = round(_scheduled(experiment, "period", *known))
            next_server, last_round, number = t + H, t, number + 1
            if not sampled:
                yield torch.stack(x)
                continue
            came = {i: x[i] for i in sampled} if post is None else post.up(x, sampled, t)
            plain = torch.stack([came[i] for i in sampled]).sum(dim=0) / len(sampled)
            weights = [*weights, 1 - sum(weights)]  # what they lack to 1 is that of `last`
            estimate = weighted_sum(torch.tensor(weights, dtype=x0.dtype), [*came.values(), last])
            if server.optimizer != "fedavg":
                y = _optimized(experiment, memory, plain if beta == 0 else estimate)
                both = server.selection == "uniform" and server.weights == "equal"
                plain = y if beta == 0 or both else plain
                estimate = y
            last = plain if beta == 0 else estimate
            for i in range(world.n):
                if awake[i] or experiment.fleet.reach_asleep:
                    before = plain if i in sampled else x[i]
                    after = (1 - beta) * before + beta * estimate
                    if post is not None and (i in sampled or beta > 0):
                        sent = after if i in sampled else estimate
                        after = post.down(x[i], i, sent, beta, i in sampled, t)
                    x[i] = after
                    received[i] = x[i] if i in sampled or beta > 0 else received[i]
        yield torch.stack(x)


def _direction(training: Training, kept: dict[str, Tensor], g: Tensor, count: int) -> Tensor:
    """What a device steps along in its step of this number, counted from 1."""
    b1, b2 = training.momentum, training.second_momentum
    match training.optimizer:
        case "momentum":
            kept["v"] = b1 * kept["v"] + g
            return kept["v"]
        case "adam":
            kept["m"] = b1 * kept["m"] + (1 - b1) * g
            kept["v"] = b2 * kept["v"] + (1 - b2) * g**2
            m, v = kept["m"] / (1 - b1**count), kept["v"] / (1 - b2**count)
            return m / (torch.sqrt(v) + training.smallest)
    return g


def _optimized(experiment: Experiment, memory: dict[str, Tensor], xhat: Tensor) -> Tensor:
    """What the server delivers, where it does more than average."""
    server, y, m, v = experiment.server, memory["y"], memory["m"], memory["v"]
    step = 1.0 if server.learning_rate is None else server.learning_rate
    match server.optimizer:
        case "fedavgm":
            v = server.momentum * v + (1 - server.dampening) * (y - xhat)
            y = y - step * v
        case "fedavgm_averages":
            v = server.momentum * v + (xhat - memory["before"])
            y = xhat + step * server.momentum * v
        case "fedadam" | "fedyogi":
            step = 0.1 if server.learning_rate is None else server.learning_rate
            b1, b2, square = server.momentum, server.second_momentum, (xhat - y) ** 2
            m = b1 * m + (1 - b1) * (xhat - y)
            if server.optimizer == "fedadam":
                v = b2 * v + (1 - b2) * square
            else:
                v = v - (1 - b2) * square * torch.sign(v - square)
            y = y + step * m / (torch.sqrt(v) + server.smallest)
    memory.update(y=y, m=m, v=v, before=xhat)
    return y


def _scheduled(
    experiment: Experiment,
    field: str,
    t: int,
    number: int,
    H: int,
    p: float,
    seen: tuple[Seen, ...],
) -> float:
    """What beta, K or H is in round t, the server round of this number."""
    server, T = experiment.server, experiment.rounds
    start, end = getattr(server, field), getattr(server, f"{field}_end")
    match getattr(server, f"{field}_schedule"):
        case "constant":
            found = start
        case "cosine":
            found = end + (start - end) * (1 + np.cos(np.pi * t / T)) / 2
        case "inverse_sqrt":
            found = start / np.sqrt(number + 1)
        case "switch":
            found = start if t < (server.switch_round or 0) else end
        case "step":
            found = np.linspace(start, end, max(2, -(-T // server.change_every)))[
                t // server.change_every
            ]
        case "double":
            found = min(start * 2 ** (t // server.change_every), np.inf if end is None else end)
        case name:
            kind, when = f"{field} schedule", When(t, T, number, start, end, H, p, seen)
            found = registry.resolve(kind, name)(when, **server.options_for(kind))
    if field == "beta":
        return min(float(found), 1.0)
    return max(1, int(found + 0.5))


def _seen(
    world: World,
    experiment: Experiment,
    x: list[Tensor],
    sampled: list[int],
    awake: list[bool],
    since: int,
) -> list[Seen]:
    """What the sampled models tell of all, by sums over pairs of them; none where they tell
    nothing."""
    server, island = experiment.server, world.fleet.island_of.tolist()
    of = [i for i in range(world.n) if awake[i]]
    sizes = [sum(island[i] == c for i in of) for c in range(len(world.sizes))]
    there = [c for c, size in enumerate(sizes) if size]
    members = {c: [i for i in sampled if island[i] == c] for c in there}
    n, K = len(of), len(sampled)

    def variance(some: list[int]) -> float:  # half the mean square difference of two
        pairs = [(x[i] - x[j]).double().square().sum() for i in some for j in some if i < j]
        return float(sum(pairs)) / (len(some) * (len(some) - 1) / 2) / 2 if pairs else 0.0

    s2 = {c: variance(members[c]) for c in there}
    by_island = server.selection in BY_ISLAND or server.weights == "stratified"
    if by_island:
        if any(len(members[c]) < min(2, sizes[c]) for c in there):
            return []
        v = {c: (1 / len(members[c]) - 1 / sizes[c]) * s2[c] for c in there}
        m = {c: torch.stack([x[i].double() for i in members[c]]).mean(dim=0) for c in there}
        intra = sum((sizes[c] - 1) * s2[c] for c in there)
        # Between two means: what their errors add is subtracted.
        inter = sum(
            sizes[b] * sizes[c] / n * (float((m[b] - m[c]).square().sum()) - v[b] - v[c])
            for b in there
            for c in there
            if b < c
        )
        spread = sum(sizes[c] / n * s2[c] for c in there)
        bias = sum((sizes[c] / n) ** 2 * v[c] for c in there)
    else:
        if K < 2:
            return []
        spread, bias = variance(sampled), (1 / K - 1 / n) * variance(sampled)
        inside = sum(len(members[c]) / sizes[c] * (len(members[c]) - 1) * s2[c] for c in there)
        intra = n * (n - 1) / (K * (K - 1)) * inside
        inter = (n - 1) * spread - intra
    found = (spread, intra / n, max(0.0, inter / n), bias)
    counts = tuple(len(members[c]) for c in there)
    return [Seen(tuple(sizes[c] for c in there), counts, *found, since, by_island)]
