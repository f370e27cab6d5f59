"""The server's schedules of beta, K and H, and what adaptive ones estimate, written out."""

import numpy as np
import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.engine.server_schedule import BY_ISLAND
from skerry.engine.world import World
from skerry.plugins import registry
from skerry.plugins.context import Context, SpreadEstimate


def scheduled_value(
    experiment: Experiment,
    field: str,
    t: int,
    number: int,
    H: int,
    p: float,
    seen: tuple[SpreadEstimate, ...],
) -> float:
    """The value of beta, K or H (`field`) in round t, the server round of this number."""
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
            kind, facts = f"{field} schedule", {"round": t, "rounds": T, "number": number}
            facts |= {"start": start, "end": end, "period": H, "mixing_rate": p, "estimates": seen}
            found = registry.resolve(kind, name)(Context(**facts), **server.options_for(kind))
    if field == "beta":
        return min(float(found), 1.0)
    return max(1, int(found + 0.5))


def estimates(
    world: World,
    experiment: Experiment,
    x: list[Tensor],
    sampled: list[int],
    awake: list[bool],
    since: int,
) -> list[SpreadEstimate]:
    """The server's estimates from the sampled models, by sums over pairs of models.

    The list is empty where too few devices were sampled for an estimate.
    """
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
    return [SpreadEstimate(tuple(sizes[c] for c in there), counts, *found, since, by_island)]
