"""Methods that break their contract, named in tests as a user would name them."""

from skerry.engine.method import Method


class wrong_start(Method):  # noqa: N801
    def start(self, X_nld):
        return {"z": X_nld[:, :, :1]}


class wrong_meet(Method):  # noqa: N801
    def meet(self, lanes, server):
        return 3


class raises(Method):  # noqa: N801
    def after_step(self, lanes, kept):
        raise ValueError("boom")


class no_method:  # noqa: N801
    pass
