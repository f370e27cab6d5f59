"""While runs are under way: live bars on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skerry.config.measures import shown, traits
from skerry.report.text import duration, plural, say
from skerry.runs.presence import device_steps
from skerry.runs.progress import Watcher

if TYPE_CHECKING:
    from rich.progress import Progress

    from skerry.config.experiment import Experiment
    from skerry.engine.world import World
    from skerry.runs.executors.messages import Task, Tick

PLAIN_SECONDS = 30.0


class Counting(Watcher):
    """Counts what is done of all that was asked for, and how fast it goes."""

    def __init__(self) -> None:
        self.runs = self.done = self.reused = 0
        self._steps = self._done_steps = self._fresh = 0
        self._ticks: dict[Task, Tick] = {}
        self._start: tuple[float, int] | None = None
        """When the first rounds were done, and how many device-steps they were: before that a
        world is built and kernels are made ready, which says nothing about the rounds to come."""
        self._remarked = False

    def planned(self, experiments: Sequence["Experiment"]) -> None:
        self.runs += len(experiments)
        self._steps += sum(map(device_steps, experiments))

    def found_finished(self, experiments: Sequence["Experiment"]) -> None:
        self.reused += len(experiments)
        self._done_steps += sum(map(device_steps, experiments))  # as `skerry watch` counts them

    def world_ready(self, world: "World") -> None:
        if not self._remarked and (line := _how_slow(world)):
            self.say(line)
        self._remarked = True

    def tick(self, task: "Task", tick: "Tick") -> None:
        self._ticks[task] = tick
        if self._start is None and tick.fresh:
            self._start = time.monotonic(), tick.fresh

    def stack_split(self, task: "Task") -> None:
        self._ticks.pop(task, None)

    def stack_done(self, task: "Task", finals: Mapping[str, Mapping[str, float]]) -> None:
        last = self._ticks.pop(task, None)
        self._fresh += last.fresh if last else 0
        self._done_steps += task.steps
        self.done += len(task)

    @property
    def share(self) -> float:
        """How much of the computing is done."""
        under_way = sum(tick.steps for tick in self._ticks.values())
        return min(1.0, (self._done_steps + under_way) / max(1, self._steps))

    def pace(self) -> list[str]:
        """`about 40 s left`, `310,000 device-steps/s`; nothing as long as nobody can tell."""
        rate = self._rate()
        if not rate:
            return []
        left = self._steps * (1 - self.share) / rate
        return [f"about {duration(left)} left", f"{rate:,.0f} device-steps/s"]

    def _rate(self) -> float:
        """Device-steps per second since the first rounds; 0 as long as nobody can tell."""
        if self._start is None:
            return 0.0
        began, already = self._start
        fresh = self._fresh + sum(tick.fresh for tick in self._ticks.values())
        return (fresh - already) / max(1e-9, time.monotonic() - began)

    def say(self, line: str) -> None:
        say(line)


class RunBars(Counting):
    """A bar for every stack of one study."""

    def __init__(self, progress: Any) -> None:
        super().__init__()
        self._progress = progress

    def stack_begun(self, task: "Task") -> None:
        # A stack that goes on from a checkpoint tells where that is: until then there is no share.
        self._row = self._progress.add_task(stack_in_words(task), total=None, told="getting ready")

    def tick(self, task: "Task", tick: "Tick") -> None:
        super().tick(task, tick)
        rounds = task.experiments[0].rounds
        told = ", ".join([f"round {tick.round:,} of {rounds:,}", *self.pace()])
        self._progress.update(self._row, completed=tick.round, total=rounds, told=told)


class RunLines(Counting):
    """For logs: one line per stack, and one every half minute."""

    def stack_begun(self, task: "Task") -> None:
        self._told = time.monotonic()
        say(f"{stack_in_words(task)}, {task.experiments[0].rounds} rounds")

    def tick(self, task: "Task", tick: "Tick") -> None:
        super().tick(task, tick)
        if time.monotonic() - self._told > PLAIN_SECONDS:
            self._told = time.monotonic()
            rounds = task.experiments[0].rounds
            say(", ".join([f"  round {tick.round} of {rounds}", *self.pace()]))


@contextmanager
def watch_run() -> Iterator[Counting]:
    if not sys.stderr.isatty():
        yield RunLines()
        return
    with _bars() as progress:
        yield RunBars(progress)


class SweepWatcher(Counting):
    """Also tells the best run so far."""

    def __init__(self, measure: str = "average_accuracy") -> None:
        super().__init__()
        self.measure = measure
        self.best: tuple[float, str] | None = None
        self._said: set[str] = set()

    def found_finished(self, experiments: Sequence["Experiment"]) -> None:
        super().found_finished(experiments)
        self.show()

    def waiting(self, worlds: int) -> None:
        self.say_once("Another sweep works on the runs that are left here; waiting for it.")

    def stack_begun(self, task: "Task") -> None:
        self.show()

    def tick(self, task: "Task", tick: "Tick") -> None:
        super().tick(task, tick)
        self.show()

    def stack_done(self, task: "Task", finals: Mapping[str, Mapping[str, float]]) -> None:
        super().stack_done(task, finals)
        labels = {
            key: one.server.label for key, one in zip(task.keys, task.experiments, strict=True)
        }
        for key, final in finals.items():
            measure = shown(self.measure, final)
            self._compare(measure, final.get(measure, math.nan), labels[key])
        self.show()

    def failed(self, experiments: Sequence["Experiment"], message: str) -> None:
        self.say_once(f"failed: {message}")

    def _compare(self, measure: str, value: float, name: str) -> None:
        sign = -1 if traits(measure).lower_is_better else 1
        if math.isfinite(value) and (self.best is None or sign * value > sign * self.best[0]):
            self.best = value, name

    def told(self) -> str:
        """`12 of 96 runs, about 40 s left, 310,000 device-steps/s, best so far s2a 93.2`."""
        told = [f"{self.reused + self.done:,} of {self.runs:,} runs", *self.pace()]
        if self.best is not None:
            value, name = self.best
            told.append(f"best so far {name} {value:.4g}")
        return ", ".join(told)

    def say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def say(self, line: str) -> None: ...
    def show(self) -> None: ...


class SweepBars(SweepWatcher):
    """A bar for the sweep, and one for every stack under way."""

    def __init__(self, progress: Any, measure: str) -> None:
        super().__init__(measure)
        self._progress = progress
        self._row = progress.add_task("sweep", total=1.0, told="")
        self._rows: dict[Task, Any] = {}

    def say(self, line: str) -> None:
        self._progress.console.print(line, highlight=False)

    def show(self) -> None:
        self._progress.update(self._row, completed=self.share, told=self.told())

    def stack_begun(self, task: "Task") -> None:
        words = stack_in_words(task)
        self._rows[task] = self._progress.add_task(words, total=None, told="getting ready")

    def tick(self, task: "Task", tick: "Tick") -> None:
        super().tick(task, tick)
        rounds = task.experiments[0].rounds
        told = f"round {tick.round:,} of {rounds:,}"
        self._progress.update(self._rows[task], completed=tick.round, total=rounds, told=told)

    def stack_split(self, task: "Task") -> None:
        super().stack_split(task)
        self._progress.remove_task(self._rows.pop(task))

    def stack_done(self, task: "Task", finals: Mapping[str, Mapping[str, float]]) -> None:
        super().stack_done(task, finals)
        self._progress.remove_task(self._rows.pop(task))


class SweepLines(SweepWatcher):
    """For logs: one line every half minute."""

    def __init__(self, measure: str) -> None:
        super().__init__(measure)
        self._told = time.monotonic()

    def say(self, line: str) -> None:
        say(line)

    def show(self) -> None:
        if time.monotonic() - self._told > PLAIN_SECONDS:
            self._told = time.monotonic()
            say(self.told())


@contextmanager
def watch_sweep(measure: str) -> Iterator[SweepWatcher]:
    if not sys.stderr.isatty():
        yield SweepLines(measure)
        return
    with _bars() as progress:
        yield SweepBars(progress, measure)


def _how_slow(world: "World") -> str | None:
    from skerry.models.one_by_one import slowdown_remark  # imports torch

    return slowdown_remark(world.learner, world.experiment.training.batch)


def stack_in_words(task: "Task") -> str:
    return f"seed {task.experiments[0].seed}, {plural(len(task), 'lane')}"


def _bars() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Share(ProgressColumn):
        """Nothing before it is known."""

        def render(self, task: Task) -> Text:
            return Text("" if task.total is None else f"{task.percentage:>3.0f} %")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        Share(),
        TextColumn("{task.fields[told]}"),
        console=Console(stderr=True),
    )
