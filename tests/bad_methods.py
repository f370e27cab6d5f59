"""Methods and compressions that break their contract, named in tests as a user would name them."""

from skerry.engine.compression import Compression
from skerry.methods.method import Method


class wrong_start(Method):  # noqa: N801
    def start(self, X_nld):
        return {"z": X_nld[:, :, :1]}


class wrong_aggregate(Method):  # noqa: N801
    def aggregate(self, lanes, server):
        return 3


class raises(Method):  # noqa: N801
    def after_step(self, lanes, before):
        raise ValueError("boom")


class no_method:  # noqa: N801
    pass


class infinite(Compression):  # noqa: N801
    def compress(self, V_rld, draws):
        V_rld.div_(0)


class without_bytes(Compression):  # noqa: N801
    def bytes(self, parameters):
        return None


class shouts(Compression):  # noqa: N801
    def compress(self, V_rld, draws):
        raise ValueError("boom")
