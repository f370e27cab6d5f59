"""What is seen while runs are under way: a live bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.sweep.run import Results, Watcher

if TYPE_CHECKING:
    from skerry.engine.simulate import Moment
    from skerry.engine.world import World
    from skerry.experiment import Experiment

PLAIN_SECONDS = 30.0


class RunWatcher(Watcher):
    """Keeps what the pictures need, and tells how far the runs are."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.reused = 0
        self._lanes = 0

    @property
    def sizes(self) -> tuple[int, ...] | None:
        return self.world.sizes if self.world else None

    def worlds(self, count: int, lanes: int) -> None:
        self.reused = lanes

    def world_ready(self, world: "World", experiments: Sequence["Experiment"]) -> None:
        self.world = self.world or world
        self.reused -= len(experiments)
        self._lanes = len(experiments)
        if experiments:
            self.begin(world, len(experiments))

    def moment(self, moment: "Moment") -> None:
        if moment.phase == "end":
            self.advance(moment)

    def begin(self, world: "World", lanes: int) -> None: ...
    def advance(self, moment: "Moment") -> None: ...

    def draw(self, results: Results, out: Path) -> list[Path]:
        """The pictures of a study: its curves, and the network of its first world."""
        from skerry.report.figures import network_picture, overview, save
        from skerry.report.words import fleet_in_words, study_in_words

        assert self.world is not None
        first = results[0].experiment
        sampled = self.world.server_order(0)[: first.server.sampled].tolist()
        title = f"{fleet_in_words(first, self.sizes)}; ringed: sampled in the first server round"
        study = study_in_words([lane.experiment for lane in results], self.sizes)
        return [
            save(overview(results.frame(), study.replace("; ", "\n", 1)), out / "curves.png"),
            save(network_picture(self.world.fleet, title, sampled=sampled), out / "network.png"),
        ]


class Bar(RunWatcher):
    def __init__(self, progress: Any) -> None:
        super().__init__()
        self._progress = progress
        self._task: Any = None

    def begin(self, world: "World", lanes: int) -> None:
        text = f"seed {world.seed}, {lanes} lane{'s' if lanes > 1 else ''}"
        self._task = self._progress.add_task(text, total=world.rounds, rate="")
        self._since = time.monotonic()

    def advance(self, moment: "Moment") -> None:
        world = moment.stack.world
        steps = moment.round * world.n * self._lanes * world.experiment.training.local_steps
        rate = steps / max(1e-9, time.monotonic() - self._since)
        self._progress.update(
            self._task, completed=moment.round, rate=f"{rate:,.0f} device-steps/s"
        )


class Lines(RunWatcher):
    """For logs: one line per world, and one every half minute."""

    def begin(self, world: "World", lanes: int) -> None:
        self._told = time.monotonic()
        print(f"seed {world.seed}: {lanes} lanes, {world.rounds} rounds", file=sys.stderr)

    def advance(self, moment: "Moment") -> None:
        if time.monotonic() - self._told > PLAIN_SECONDS:
            self._told = time.monotonic()
            print(
                f"  round {moment.round} of {moment.stack.world.rounds}",
                file=sys.stderr,
                flush=True,
            )


@contextmanager
def watch() -> Iterator[RunWatcher]:
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[rate]}"),
        console=Console(stderr=True),
    ) as progress:
        yield Bar(progress)
