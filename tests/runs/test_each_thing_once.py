"""A run does each thing once, and few functions lie between the command and the primitive."""

import sys
from collections import Counter
from pathlib import Path

import pytest

import skerry
from skerry.cli.main import main
from skerry.engine import primitives
from skerry.engine.world import build_world
from skerry.records.database import create_or_open
from skerry.records.reading import RecordedRuns
from skerry.runs.memory import measure_footprint

SOURCE = Path(skerry.__file__).parent
EXPERIMENT = str(SOURCE / "config" / "experiment.py")
MOST_FRAMES = 15
"""Between `main` and `s2a`, without both, and without frames of the command-line library."""

ARGUMENTS = [
    "run", "--compare", "s2a,s2s", "--seeds", "2", "--device", "cpu", "--json",
    "--set", "network.devices=8", "--set", "server.sampled=3", "--set", "server.period=1",
    "--set", "training.batch=8", "--set", "rounds=3",
]  # fmt: skip
COUNTED = {
    create_or_open.__code__: "store opened",
    build_world.__code__: "world built",
    measure_footprint.__code__: "world surveyed",
    RecordedRuns._to_history.__code__: "history read back",
}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """Calls of the counted functions during `skerry run`, and the stack of the first `s2a`."""
    counts: Counter[str] = Counter()
    stack: list[str] = []

    def look(frame, event, _):
        if event != "call":
            return
        if (name := COUNTED.get(frame.f_code)) is not None:
            counts[name] += 1
        if frame.f_code.co_name == "_rules" and frame.f_code.co_filename == EXPERIMENT:
            counts["validated"] += 1  # pydantic calls it at the end of each validation
        if frame.f_code is primitives.s2a.__code__ and not stack:
            while (frame := frame.f_back) and frame.f_code is not main.__code__:
                if Path(frame.f_code.co_filename).is_relative_to(SOURCE):
                    stack.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("once"))
        sys.setprofile(look)
        try:
            with pytest.raises(SystemExit) as left:
                main(ARGUMENTS)
        finally:
            sys.setprofile(None)
    assert not left.value.code
    return counts, stack


def test_few_frames_lie_between_the_command_and_the_primitive(profiled):
    _, stack = profiled
    assert 0 < len(stack) <= MOST_FRAMES, "\n".join(stack)
    wrappers = [frame for frame in stack if str(SOURCE / "runs") in frame]
    assert len(wrappers) <= 4, "\n".join(wrappers)


def test_each_thing_is_done_once(profiled):
    """Two worlds (seeds) with two lanes each: every experiment is validated once, the store opened
    once, every world built and surveyed once, and no result is read back."""
    counts, _ = profiled
    assert counts["validated"] == 1 + 2, "the experiment of the command, and one per primitive"
    assert counts["store opened"] == 1
    assert counts["world built"] == 2
    assert counts["world surveyed"] == 2
    assert counts["history read back"] == 0
