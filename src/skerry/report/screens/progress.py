"""Progress displays of runs and sweeps: bars on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skerry.config.measures import shown, traits
from skerry.records.activity import device_steps
from skerry.report.text import duration, plural, safe_console, say
from skerry.runs.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from skerry.config.experiment import Experiment
    from skerry.engine.world import World
    from skerry.runs.executors.executor import StackJob, Tick

PLAIN_SECONDS = 30.0
FIRST = "building the data and the fleet"  # shown at once, before the first runs start


class SweepProgress(Progress):
    """How much of the requested computing is done, how fast, and the best run so far by `measure`.
    What shows it overrides `show`, and `say` for lines."""

    def __init__(self, measure: str = "average_accuracy") -> None:
        self.measure = measure
        self.best: tuple[float, str] | None = None
        self._printed: set[str] = set()
        self.runs = self.done = self.reused = 0
        self._steps = self._fresh = 0
        self._done_steps = self._fresh_planned = 0.0
        self._ticks: dict[StackJob, Tick] = {}
        self._start: tuple[float, int, float] | None = None
        """Time, device-steps and planned steps of the first rounds: before them a world is built
        and kernels are compiled, which says nothing about later rounds."""
        self._remarked = False

    def planned(self, experiments: Sequence["Experiment"]) -> None:
        self.runs += len(experiments)
        self._steps += sum(map(device_steps, experiments))

    def found_finished(self, experiments: Sequence["Experiment"]) -> None:
        self.reused += len(experiments)
        self._done_steps += sum(map(device_steps, experiments))  # as `skerry watch` counts them
        self.show()

    def world_ready(self, world: "World") -> None:
        from skerry.models.one_by_one import slowdown_remark  # brings torch

        batch = world.experiment.training.batch
        if not self._remarked and (line := slowdown_remark(world.learner, batch)):
            self.say(line)
        self._remarked = True

    def tick(self, job: "StackJob", tick: "Tick") -> None:
        self._ticks[job] = tick
        if tick.resumed:
            runs, rounds = plural(tick.resumed, "run"), job.experiments[0].rounds
            self.say(f"Continuing {runs} from round {tick.round:,} of {rounds:,}.")
        if self._start is None and tick.fresh:
            self._start = time.monotonic(), tick.fresh, _planned(job, tick.fresh)
        self.show()

    def stack_split(self, job: "StackJob") -> None:
        self._ticks.pop(job, None)

    def stack_done(self, job: "StackJob", finals: Mapping[str, Mapping[str, float]]) -> None:
        last = self._ticks.pop(job, None)
        self._fresh += last.fresh if last else 0
        self._fresh_planned += _planned(job, last.fresh) if last else 0
        self._done_steps += _planned(job, job.steps)
        self.done += len(job)
        labels = {key: one.server.label for key, one in zip(job.keys, job.experiments, strict=True)}
        for key, final in finals.items():
            measure = shown(self.measure, final)
            sign = -1 if traits(measure).lower_is_better else 1
            value = final.get(measure, math.nan)
            if math.isfinite(value) and (self.best is None or sign * value > sign * self.best[0]):
                self.best = value, labels[key]
        self.show()

    def waiting(self, worlds: int) -> None:
        self.say_once("Another process computes the remaining runs of this folder; waiting for it.")

    def stack_begun(self, job: "StackJob") -> None:
        self.show()

    def failed(self, experiments: Sequence["Experiment"], message: str) -> None:
        self.say_once(f"failed: {message}")

    @property
    def share(self) -> float:
        under_way = sum(_planned(job, tick.steps) for job, tick in self._ticks.items())
        return min(1.0, (self._done_steps + under_way) / max(1, self._steps))

    def pace(self) -> list[str]:
        """`about 40 s left`, `310,000 device-steps/s`; empty as long as they are unknown."""
        began, already, planned = self._start or (0.0, 0, 0.0)
        seconds, ticks = max(1e-9, time.monotonic() - began), self._ticks.items()
        rate = (self._fresh + sum(tick.fresh for _, tick in ticks) - already) / seconds
        if self._start is None or not rate:
            return []
        fresh = self._fresh_planned + sum(_planned(job, tick.fresh) for job, tick in ticks)
        left = self._steps * (1 - self.share) * seconds / (fresh - planned)
        return [f"about {duration(left)} left", f"{rate:,.0f} device-steps/s"]

    def status_line(self) -> str:
        """`12 of 96 runs, about 40 s left, 310,000 device-steps/s, best so far s2a 93.2`."""
        if not self.runs:
            return FIRST
        status = [f"{self.reused + self.done:,} of {self.runs:,} runs", *self.pace()]
        if self.best is not None:
            value, name = self.best
            status.append(f"best so far {name} {value:.4g}")
        return ", ".join(status)

    def say_once(self, line: str) -> None:
        if line not in self._printed:
            self._printed.add(line)
            self.say(line)

    def say(self, line: str) -> None:
        say(line)

    def show(self) -> None: ...


def _planned(job: "StackJob", steps: int) -> float:
    """Device-steps of a job, as they were planned before its data were read (local epochs)."""
    return steps * sum(map(device_steps, job.experiments)) / job.steps


class SweepBars(SweepProgress):
    """A bar for the sweep, and one for every running stack."""

    def __init__(self, progress: Any, measure: str) -> None:
        super().__init__(measure)
        self._progress = progress
        self._row = progress.add_task("all", total=1.0, status=self.status_line())
        self._rows: dict[StackJob, Any] = {}

    def say(self, line: str) -> None:
        self._progress.console.print(line, highlight=False)

    def show(self) -> None:
        self._progress.update(self._row, completed=self.share, status=self.status_line())

    def stack_begun(self, job: "StackJob") -> None:
        words = f"seed {job.experiments[0].seed}, {plural(len(job), 'run')}"
        self._rows[job] = self._progress.add_task(words, total=None, status="getting ready")

    def tick(self, job: "StackJob", tick: "Tick") -> None:
        super().tick(job, tick)
        rounds = job.experiments[0].rounds
        status = f"round {tick.round:,} of {rounds:,}"
        self._progress.update(self._rows[job], completed=tick.round, total=rounds, status=status)

    def stack_split(self, job: "StackJob") -> None:
        super().stack_split(job)
        self._progress.remove_task(self._rows.pop(job))

    def stack_done(self, job: "StackJob", finals: Mapping[str, Mapping[str, float]]) -> None:
        super().stack_done(job, finals)
        self._progress.remove_task(self._rows.pop(job))


class SweepLines(SweepProgress):
    """For logs: a line before the first round, with `at_once` also before anything is built, and
    then one every half minute."""

    def __init__(self, measure: str, at_once: bool = False) -> None:
        super().__init__(measure)
        self._printed_at = time.monotonic()
        if at_once:
            say(self.status_line())

    def stack_begun(self, job: "StackJob") -> None:
        self.say_once(f"{plural(self.runs, 'run')}, {job.experiments[0].rounds} rounds")

    def show(self) -> None:
        if time.monotonic() - self._printed_at > PLAIN_SECONDS:
            self._printed_at = time.monotonic()
            say(self.status_line())


@contextmanager
def show_progress(
    measure: str = "average_accuracy", at_once: bool = False
) -> Iterator[SweepProgress]:
    """The progress display of runs and sweeps; `measure` ranks the runs. `at_once`: a log begins
    before anything is built; the first line of a command may be an error."""
    if not sys.stderr.isatty():
        yield SweepLines(measure, at_once)
        return
    with _bars() as progress:
        yield SweepBars(progress, measure)


def _bars() -> "RichProgress":
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Share(ProgressColumn):
        """The percentage, empty as long as it is unknown."""

        def render(self, task: Task) -> Text:
            return Text("" if task.total is None else f"{task.percentage:>3.0f} %")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        Share(),
        TextColumn("{task.fields[status]}"),
        console=safe_console(stderr=True),
    )
