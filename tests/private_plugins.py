"""Plug-ins that read or write whole models, also their private parts."""

from skerry.engine.compression import Compression
from skerry.methods.method import Method, Traffic


class Averaging(Method):
    """A server that averages all devices, and says nothing about private parts."""

    def aggregate(self, lanes, server):
        lanes.X_nld[:] = lanes.X_nld.mean(dim=0)
        return Traffic(len(lanes.X_nld), len(lanes.X_nld))


class AveragingShared(Averaging):
    allows_private = True


class Shifted:
    """A server optimizer that writes into a private matrix, at places 40 to 59."""

    @staticmethod
    def start(x0_ld):
        return {}

    @staticmethod
    def deliver(memory, average_ld):
        average_ld[:, 40:60] += 7.0
        return average_ld


class Everywhere(Compression):
    """Writes into all places of a message that is not zero."""

    quality = 0.5

    def compress(self, V_rld, draws):
        V_rld.add_(V_rld.norm(dim=-1, keepdim=True), alpha=0.1)
