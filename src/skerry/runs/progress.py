"""The progress callback: what progress bars, trackers and other observers of runs implement."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from skerry.config.experiment import Experiment
from skerry.errors import CallbackError, SkerryError, SkerryWarning, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from skerry.engine.simulate import Moment
    from skerry.engine.world import World
    from skerry.records.final_models import FinalModels
    from skerry.records.store import Run
    from skerry.runs.executors.executor import StackJob, Tick
    from skerry.runs.stopping import LaneValues

KEPT = (
    "Correct it; finished runs are kept, and with a folder to record in the same call resumes the "
    "others."
)


class Progress:
    """Callback that follows runs: `skerry.run(..., progress=...)` calls its methods. Override those
    that you need. An error that one raises ends all runs after their round, as Ctrl-C does:
    finished runs stay, checkpoints are saved, and the same call resumes the others.

    class Best(skerry.Progress):
        def stack_done(self, job, finals):
            print(max(final["average_accuracy"] for final in finals.values()))
    """

    wants_rows = False
    """Whether `recorded` and `run_ended` are called."""

    @property
    def wants_values(self) -> bool:
        """Whether `measured` is called: where it is overridden."""
        return type(self).measured is not Progress.measured

    def planned(self, experiments: Sequence[Experiment]) -> None:
        """All runs that were requested."""

    def found_finished(self, experiments: Sequence[Experiment]) -> None:
        """Runs that were recorded before."""

    def waiting(self, worlds: int) -> None:
        """Only worlds are left that another process works on."""

    def stack_begun(self, job: "StackJob") -> None:
        """A stack of lanes of one world starts; the job has their `experiments` and `keys`."""

    def tick(self, job: "StackJob", tick: "Tick") -> None:
        """The stack has done `tick.round` rounds."""

    def stack_split(self, job: "StackJob") -> None:
        """The stack lost its worker or did not fit into memory, and starts again."""

    def stack_done(self, job: "StackJob", finals: Mapping[str, Mapping[str, float]]) -> None:
        """The stack has ended: the last value of every measure, by key; empty where it failed."""

    def failed(self, experiments: Sequence[Experiment], message: str) -> None:
        """These runs ended with an error; the others continue."""

    def recorded(self, run: "Run", columns: Mapping[str, Any]) -> None:
        """Further rounds of a run are in the store: "round" and each measure as a column."""

    def run_ended(self, run: "Run", final: Mapping[str, float]) -> None:
        """A run is finished, diverged or failed (`run.status`): the last value of each measure."""

    def close(self) -> None:
        """No further calls follow. Runs that have not ended may be resumed another time."""

    # Only where runs are computed in this process:

    def world_ready(self, world: "World") -> None:
        """Fleet, data and model of a world are built."""

    def measured(self, experiment: Experiment, values: "LaneValues") -> str | bool | None:
        """A run was evaluated: `values["average_accuracy"]` is the last value of a measure,
        `values.history("average_accuracy")` are all, `values.round` counts the rounds done. Return
        a reason, as text, to end this run here: it is recorded as not finished, with its rounds and
        a checkpoint, and the same call resumes it. `skerry.run(stop=...)` finishes runs early."""
        return None

    def moment(self, moment: "Moment") -> None:
        """All models, `moment.state.X_nld`, `[devices, lanes, parameters]`, at the start, before
        the server round, and at the end of each round. It is the live array: copy what you keep,
        and change nothing."""


class ProgressGroup(Progress):
    """Several callbacks as one, called in order. An error of a user's own is a CallbackError."""

    def __init__(self, *members: Progress):
        self.wants_rows = any(member.wants_rows for member in members)
        self._wants_values = any(member.wants_values for member in members)
        for name in (name for name, value in vars(Progress).items() if callable(value)):
            setattr(self, name, partial(_call_all, members, name))

    @property
    def wants_values(self) -> bool:
        return self._wants_values


def _call_all(members: Sequence[Progress], name: str, *values: Any) -> Any:
    """Call all members, also after an error of one; returns the first answer."""
    answers, errors = [], []
    for member in members:
        lent = _models(*values) if name == "moment" else ()
        try:
            answers.append(getattr(member, name)(*values))
        except Exception as error:  # a user's code may raise anything
            if type(member).__module__.startswith("skerry."):
                raise
            line = f"the progress callback {type(member).__name__} failed in {name}"
            errors.append(CallbackError(f"{line} ({one_line(error)}). {KEPT}"))
            errors[-1].__cause__ = error
        if lent and _models(*values) != lent:
            # No CallbackError, after which these models would be saved in a checkpoint.
            raise SkerryError(
                f"the progress callback {type(member).__name__} changed the models in moment. They "
                "are only lent: work on a copy, moment.state.X_nld.clone()."
            )
    if not errors:
        return next(filter(None, answers), None)
    if name != "close":
        raise errors[0]
    warnings.warn(f"{errors[0]}", SkerryWarning, stacklevel=3)
    return None


def _models(moment: "Moment") -> tuple[int, int]:
    """A mark of the models of a moment: their array and the number of writes into it."""
    X_nld = moment.state.X_nld
    return id(X_nld), X_nld._version


class ModelKeeper(Progress):
    """Keeps the models of runs at their last round: in the folder of a store, or in memory."""

    def __init__(self, folder: "Path | None" = None) -> None:
        self._folder = folder
        self.models: dict[str, FinalModels] = {}

    def moment(self, moment: "Moment") -> None:
        from skerry.records.final_models import FinalModels

        stack, X_nld = moment.stack, moment.state.X_nld
        if moment.phase != "end":
            return
        is_last = moment.round == stack.world.rounds
        for lane in range(len(stack)) if is_last else moment.ended:
            if lane in moment.diverged:
                continue
            found, key = FinalModels.of_world(stack.world, X_nld[:, lane]), stack.keys[lane]
            if self._folder is None:
                self.models[key] = found
            else:
                found.save(self._folder, key)
