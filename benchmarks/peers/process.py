"""One contestant's run of one job, as a process of its own that is timed and weighed."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from contestants import Contestant
from environments import HERE, last_error
from jobs import loss_of
from peer_job import Job

LOOK_EVERY = 0.5  # seconds between two looks at the memory
SETTLE = 10.0  # seconds that helpers have to end after the process that started them

QUIET = {
    # Nothing reports home or asks a server on the network.
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "WANDB_MODE": "disabled",
    "CLEARML_OFFLINE_MODE": "1",
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    # Ray runs whatever code reaches its ports; so it keeps to loopback.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


class FailedError(Exception):
    """Why a contestant gave no answer, in one line."""


@dataclass(frozen=True)
class Measured:
    device_steps_per_second: float
    start_up: float
    """Seconds from the launch to the end of the warm-up round."""
    memory: float | None
    """Peak of the proportional set size of all its processes, bytes; None where unknown."""
    loss: float
    versions: dict[str, str]


def measure(
    contestant: Contestant, python: Path, job: Path, scratch: Path, limit: float
) -> Measured:
    """Run it in an empty folder, which is also its home: what it writes goes away with it."""
    command = [python, HERE / contestant.folder / "job.py", job, scratch, contestant.variant]
    log = scratch / "output.txt"
    launched = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=scratch,
            env=surroundings(scratch),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            memory = _watch(process, launched + limit)
        finally:
            _end_session(process)
    answer = scratch / "answer.json"
    if process.returncode or not answer.exists():
        if time.monotonic() - launched > limit:
            raise FailedError(f"not done within {limit:.0f} s")
        raise FailedError(last_error(log.read_text(errors="replace")) or "no answer")
    return judged(contestant, job, scratch, launched, memory)


def judged(
    contestant: Contestant, folder: Path, answered: Path, launched: float, memory: float | None
) -> Measured:
    """What an answer says, by the clock and by the loss of the model handed back."""
    job, answer = Job.load(folder), json.loads((answered / "answer.json").read_text())
    seconds = answer["ended"] - answer["started"]
    if not seconds > 0:
        raise FailedError("its clock never ran")
    return Measured(
        device_steps_per_second=contestant.lanes * job.devices * job.rounds / seconds,
        start_up=answer["started"] - launched,
        memory=memory,
        loss=loss_of(folder, answered / "final.npz"),
        versions=answer["versions"],
    )


def surroundings(scratch: Path) -> dict[str, str]:
    """The environment of a contestant: quiet, at home in its folder, free to choose its threads."""
    inherited = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    own = {"HOME": scratch, "RAY_TMPDIR": scratch, "PYTHONPATH": HERE / "shared"}
    return inherited | QUIET | {name: str(path) for name, path in own.items()}


def _watch(process: subprocess.Popen, until: float) -> float | None:
    """Wait for the end, looking at the memory now and then."""
    peak = 0
    while time.monotonic() < until:
        try:
            process.wait(LOOK_EVERY)
            break
        except subprocess.TimeoutExpired:
            peak = max(peak, sum(map(_proportional_size, _session(process.pid))))
    return peak or None


def _end_session(process: subprocess.Popen) -> None:
    """No helper of this contestant may slow the next one down."""
    if process.poll() is None:
        process.kill()
        process.wait()
    deadline = time.monotonic() + SETTLE
    while members := list(_session(process.pid)):
        if time.monotonic() > deadline:
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            return
        time.sleep(0.1)


def _session(leader: int) -> Iterator[int]:
    """The processes that a contestant's first process started, and itself (Linux)."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the name, which may hold anything: state, parent, group, session.
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it has ended meanwhile
        if int(session) == leader and state != "Z":
            yield int(stat.parent.name)


def _proportional_size(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
