"""Start the ranks of a command on this machine, and supervise them.

A rank that dies leaves the others waiting for it. So all of them are ended, and one line reports
which rank it was; the next start resumes from their checkpoint.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

POLL_SECONDS = 0.1
GRACE_SECONDS = 2.0  # how long an error waits for the first rank, which reports common ones
SAVING_SECONDS = 60.0  # how long ranks that were stopped may take for a checkpoint
LIFELINE = "SKERRY_LIFELINE"  # environment variable: the rank ends with its parent's pipe
LOCAL = {"linux": "lo", "darwin": "lo0"}


@dataclass
class _Rank:
    """A rank's process and the last line it printed."""

    popen: "subprocess.Popen[str]"
    printed: deque[str] = field(default_factory=lambda: deque(maxlen=1))

    def listen(self) -> None:
        for line in self.popen.stderr or ():
            if line.strip():
                self.printed.append(line.strip())


def launch(ranks: int, arguments: Sequence[str], threads: int) -> tuple[int, str]:
    """Run `skerry` on several ranks; returns the exit code and an error line, unless printed."""
    environment = {
        **os.environ,
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "OMP_NUM_THREADS": str(threads),
        LIFELINE: "1",
    }
    if sys.platform in LOCAL:
        for library in ("GLOO", "NCCL"):  # each listens for the other ranks
            environment.setdefault(f"{library}_SOCKET_IFNAME", LOCAL[sys.platform])
    team = [_start(rank, arguments, environment) for rank in range(ranks)]
    try:
        return _watch(team)
    except KeyboardInterrupt:
        terminate_and_wait([rank.popen for rank in team], SAVING_SECONDS)
        return 128 + signal.SIGINT, ""
    finally:
        for rank in team:
            rank.popen.kill()
            rank.popen.wait()


def _start(rank: int, arguments: Sequence[str], environment: dict[str, str]) -> _Rank:
    started = _Rank(
        subprocess.Popen(
            [sys.executable, "-P", "-m", "skerry", *arguments],
            stdin=subprocess.PIPE,
            stdout=None if rank == 0 else subprocess.DEVNULL,
            stderr=None if rank == 0 else subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C is for this process alone
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
    )
    threading.Thread(target=started.listen, daemon=True).start()
    return started


def _watch(team: Sequence[_Rank]) -> tuple[int, str]:
    """Wait until all ranks are done or one has failed; returns as `launch` does."""
    failed_since: float | None = None
    while True:
        codes = [rank.popen.poll() for rank in team]
        if all(code == 0 for code in codes):
            return 0, ""
        if (first := codes[0] or 0) > 0:
            return first, ""  # it has printed the error itself
        for number, code in enumerate(codes):
            if not code:
                continue
            failed_since = failed_since or time.monotonic()
            if code < 0 or time.monotonic() - failed_since > GRACE_SECONDS:
                return max(1, code), _line(number, team, code)
            break
        time.sleep(POLL_SECONDS)


def _line(number: int, team: Sequence[_Rank], code: int) -> str:
    how = f" (signal {-code})." if code < 0 else f" (exit code {code})."
    if code > 0 and team[number].printed:
        how = f": {team[number].printed[0].removeprefix('error: ')}"
    advice = "The same command resumes from the last checkpoint."
    return f"rank {number} of {len(team)} ended{how} {advice}"


def terminate_and_wait(processes: Sequence["subprocess.Popen[Any]"], seconds: float) -> None:
    """Let processes finish their round and save; a second Ctrl-C does not wait for it."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + seconds
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def end_with_parent() -> None:
    """On a rank that `launch` started: end when the parent process ends, however that happens."""
    if os.environ.pop(LIFELINE, None):

        def end_with_stdin() -> None:
            while os.read(sys.stdin.fileno(), 1):
                pass
            os._exit(1)

        threading.Thread(target=end_with_stdin, daemon=True).start()
