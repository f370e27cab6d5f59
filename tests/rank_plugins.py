"""A selection that takes its time, and may kill the rank that asks."""

import os
import signal
import time


def slow(context):
    """The usual one, slow on ranks. After a while the one that SKERRY_TEST_KILL names is gone."""
    time.sleep(0.15 if "RANK" in os.environ else 0)
    if context.number > 20 and os.environ.get("SKERRY_TEST_KILL") == os.environ.get("RANK", "-"):
        os.kill(os.getpid(), signal.SIGKILL)
    return context.order[: context.sampled]
