"""Start the ranks of a command on this machine, and watch over them.

A rank that dies leaves the others waiting for it. So all are ended with it, and one line says which
it was; what they have saved is there to go on from.
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

POLL_SECONDS = 0.1
GRACE_SECONDS = 2.0
"""A fault that all ranks meet is the first one's to tell: so long the others wait for it."""
SAVING_SECONDS = 60.0
"""So long ranks that were stopped have for a checkpoint."""
LIFELINE = "SKERRY_LIFELINE"
"""In the environment of ranks that end when their stdin does: whoever started them is gone."""
LOCAL = {"linux": "lo", "darwin": "lo0"}


@dataclass
class _Rank:
    popen: "subprocess.Popen[str]"
    said: deque[str] = field(default_factory=lambda: deque(maxlen=1))
    """Its last line."""

    def listen(self) -> None:
        for line in self.popen.stderr or ():
            if line.strip():
                self.said.append(line.strip())


def launch(ranks: int, arguments: Sequence[str], threads: int) -> tuple[int, str]:
    """Run `skerry` with these arguments on so many ranks; gives the exit code, and a line to tell
    where no rank has told it."""
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
        environment.setdefault("GLOO_SOCKET_IFNAME", LOCAL[sys.platform])
    team = [_start(rank, arguments, environment) for rank in range(ranks)]
    try:
        return _watch(team)
    except KeyboardInterrupt:
        _let_them_save(team)
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
    """Until all are done, or one has failed."""
    failed_since: float | None = None
    while True:
        codes = [rank.popen.poll() for rank in team]
        if all(code == 0 for code in codes):
            return 0, ""
        if (first := codes[0] or 0) > 0:
            return first, ""  # it has told itself what went wrong
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
    if code > 0 and team[number].said:
        how = f": {team[number].said[0].removeprefix('error: ')}"
    goes_on = "The same command goes on from the last checkpoint."
    return f"rank {number} of {len(team)} ended{how} {goes_on}"


def _let_them_save(team: Sequence[_Rank]) -> None:
    """They finish their round and leave a checkpoint; a second Ctrl-C does not wait for it."""
    for rank in team:
        rank.popen.terminate()
    deadline = time.monotonic() + SAVING_SECONDS
    for rank in team:
        with suppress(subprocess.TimeoutExpired):
            rank.popen.wait(max(0.0, deadline - time.monotonic()))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def end_with_parent() -> None:
    """On a rank: live no longer than whoever started it, however that ended."""
    if os.environ.pop(LIFELINE, None):
        threading.Thread(target=_end_with_stdin, daemon=True).start()


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
