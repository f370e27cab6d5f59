"""Sweeps in child processes that tests may kill.

One process imports everything once, then forks a child for every sweep that it is sent: a child
is at work within milliseconds, so that it can be killed at many moments in little time.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from command_line import environment

NURSERY = """
import json, os, resource, signal, sys
import skerry.runs.driver, skerry.runs.executors.processes, scipy.stats
from skerry.errors import SkerryError
from skerry.runs.run import run
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        continue
    code = 0
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(2, 1)  # Ray prints to stdout when a worker dies
        if most := order.pop("most_bytes", None):
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        run(order.pop("file"), **order)
    except KeyboardInterrupt:
        code = 130
    except SkerryError as error:
        print(error, file=sys.stderr)
        code = 2
    with open(order["out"] + ".code", "w") as file:
        file.write(str(code))
    os._exit(0)
"""


class Child:
    def __init__(self, pid: int, out: Path):
        self.pid, self._code = pid, Path(f"{out}.code")

    def kill(self, signal: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal)

    def ended(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def wait(self, seconds: float = 600) -> int | None:
        """Its exit code; None if it was killed."""
        until(self.ended, seconds)
        return int(self._code.read_text()) if self._code.exists() else None


class Nursery:
    def __init__(self, process: "subprocess.Popen[str]"):
        self._process = process

    def start(self, file: Path, out: Path, **options: object) -> Child:
        Path(f"{out}.code").unlink(missing_ok=True)
        order = {"file": str(file), "out": str(out), "device": "cpu", **options}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Child(int(self._process.stdout.readline()), out)


@contextmanager
def nursery():
    process = subprocess.Popen(
        [sys.executable, "-c", NURSERY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        yield Nursery(process)
    finally:
        process.stdin.close()
        process.wait(600)
        process.stdout.close()


def until(condition, seconds: float = 600) -> None:
    """Wait for a condition; the limit only ends a test that hangs, however busy the machine is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
