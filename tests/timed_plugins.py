"""Plug-ins of a user's own that do what built-ins do, so that their times are known."""

import numpy as np

import skerry


def my_s2s(X_nld, sampled_k, delivered_ld):
    """S2S, with no word about whom it reaches."""
    X_nld[sampled_k] = delivered_ld
    return len(sampled_k)


def my_s2a(X_nld, sampled_k, delivered_ld):
    """S2A, with no word about whom it reaches."""
    X_nld[:] = delivered_ld
    return len(X_nld)


def my_uniform(context):
    """The uniform selection."""
    return context.order[: context.sampled]


def farthest(context):
    """The devices whose models are farthest from the one delivered last."""
    return np.argsort(-context.distances)[: context.sampled]


farthest.needs_distances = True


class Doubled(skerry.Method):
    """Plain SGD that sends every vector twice; its attributes say so, or Traffic alone does."""

    up = down = 2

    def aggregate(self, lanes, server):
        return skerry.Traffic(2 * len(server.sampled_k), 2 * server.deliver(lanes.X_nld))


class Unsaid(Doubled):
    """As Doubled, but its attributes are those of plain SGD."""

    up = down = 1


def in_words(context):
    """Sampled devices with weights of their own."""
    devices = context.order[: context.sampled]
    weights = 1.0 + np.arange(len(devices))
    return devices, weights / weights.sum()
