"""Plug-ins of every kind that break their contracts, named in tests as a user would name them."""

import networkx as nx
import numpy as np
from torch import nn

NUMBER = 3


def raises(*args, **options):
    raise ValueError("boom\nand a second line")


def nothing(*args):
    return None


# Topologies and weights


def one_node_more(size):
    return nx.cycle_graph(size + 1)


def directed(size):
    return nx.cycle_graph(size, create_using=nx.DiGraph)


def in_pieces(size):
    return nx.empty_graph(size)


def heavy_weights(graph):
    return np.ones((len(graph), len(graph)))


def weights_off_the_links(graph):
    return np.full((len(graph), len(graph)), 1 / len(graph))


# Data sets, partitions and samplings


def three_arrays():
    return 1, 2, 3


def no_arrays():
    return 1, 2, 3, 4


def not_finite():
    x, y = np.full((100, 3), np.nan), np.arange(100) % 2
    return x, y, x, y


def sized(*, size):
    raise AssertionError("never called without its option")


def one_share(labels, classes, sizes):
    return [np.arange(len(labels))]


def every_sample_twice(labels, classes, sizes):
    return [np.arange(len(labels)) for _ in sizes]


def one_sample_lost(labels, indices, size):
    return np.array_split(indices[1:], size)


class Foreign:
    """A sampling whose indices lie outside the data."""

    def __init__(self, partition, batch):
        self.shape = (len(partition.sizes), batch)

    def indices(self, t, step, steps):
        return np.full(self.shape, 10**6)


class Halves(Foreign):
    def indices(self, t, step, steps):
        return np.full(self.shape, 0.5)


class Small(Foreign):
    def indices(self, t, step, steps):
        return np.zeros((3, 2), np.int64)


# Schedules, primitives and server optimizers


def negative():
    return -1


def text():
    return "slower"


def forgets_to_count(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = delivered_ld


def counts_too_many(X_nld, sampled_k, delivered_ld):
    return len(X_nld) + 1


def too_narrow(X_nld, sampled_k, delivered_ld):
    X_nld[sampled_k] = delivered_ld[:, :3]
    return len(sampled_k)


class DeliversNothing:
    @staticmethod
    def start(x0_ld):
        return {}

    @staticmethod
    def deliver(memory, average_ld):
        return None


class DeliversLess(DeliversNothing):
    @staticmethod
    def deliver(memory, average_ld):
        return average_ld[:, :3]


class RemembersNothing(DeliversNothing):
    @staticmethod
    def start(x0_ld):
        return None


class RemembersLess(DeliversNothing):
    @staticmethod
    def start(x0_ld):
        return {"v": x0_ld[:, :2]}


# Models, for digits (1, 8, 8) with 10 classes


class Fine(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x.flatten(1))


class GivesTuple(Fine):
    def forward(self, x):
        return (super().forward(x),)


class Branches(Fine):
    def forward(self, x):
        scores = super().forward(x)
        return scores if scores.sum() > 0 else -scores


class FunctionalDropout(Fine):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), training=self.training)


class FewerWhenTraining(Fine):
    def forward(self, x):
        return super().forward(x)[:, :3] if self.training else super().forward(x)


def batch_norm():
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))


def eleven_scores():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 11))


def wrong_input():
    return nn.Sequential(nn.Flatten(), nn.Linear(63, 10))


def frozen():
    return Fine().requires_grad_(False)


def wide(*, width):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 10))


# Options that cannot be set


def lacks_an_option(X_nld, sampled_k, delivered_ld, *, strength):
    raise AssertionError("never called without its option")


def option_of_another_kind(graph, *, degree):
    raise AssertionError("the degree is told to topologies")


def default_of_its_own(size, *, degree=7):
    raise AssertionError("the field has a default")


# Who takes part, and when


def strangers(context):
    return [10, 99]


def one_twice(context):
    return [0, 1, 1]


def table_of_devices(context):
    return [[0, 1], [2, 3]]


def weights_that_do_not_sum(context):
    return [0, 1, 2], [0.5, 0.5, 0.5]


def a_weight_too_few(context):
    return [0, 1, 2], [0.5, 0.5]


def more_than_all(context):
    return 99


def text_of_a_number(context):
    return "slower"


def works_on_a_copy(X_nld, sampled_k, delivered_ld):
    """What it computes is thrown away."""
    X_nld = X_nld.clone()
    X_nld[sampled_k] = delivered_ld
    return len(sampled_k)
