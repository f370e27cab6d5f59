"""Does advice name the winner? Four regimes, three topologies, K/n in {.2, .6}, H in {5, 20}.

    python studies/advice/run.py --dataset digits [--device auto] [--devices 100]
    python studies/advice/run.py --dataset mnist --device cuda --minutes 4.5
    python studies/advice/run.py --dataset mnist --devices 20 --among s2s,s2a --looks 2
    python studies/advice/run.py --dataset mnist --device cuda --name selection \
        --among s2s,s2a,blend,uniform,per_component --topologies ring,complete --shares .02,.1,.2

The truth of a cell is a paired sweep over many seeds, with the stepsize tuned for each primitive
and goal. The advice uses other seeds. All cells of a regime and seed run as lanes of one stack and
are recorded in a store, so that an interrupted study resumes. --minutes ends the sweeps early, with
fewer seeds, and Ctrl-C writes the results so far. Questions for each cell and goal:
- Does the advice between S2S and S2A name the winner?
- Is the advice among all candidates (blends too, unless --among leaves them out) at least as good
  as both of them?
- Does the advice name the better selection rule, where --among names two?
The results are written to studies/advice/data/NAME.json and the tables into docs/advise.md.
"""

import argparse
import json
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from tables import render, summary

from skerry.advice.candidates import Budget, Entry, Menu, candidates
from skerry.advice.decision import ACCURACIES, Decision, PilotScores, decide
from skerry.advice.pilot import LOOKS, AdviceProgress, Pilot, for_pilot, race, run_entries
from skerry.advice.prediction import predict
from skerry.advice.question import Goal, Question, Timer, read_among
from skerry.analysis.compare import compare_seeds
from skerry.config.experiment import Experiment
from skerry.engine.world import build_world, pick_device
from skerry.files import replace_file
from skerry.network.fleet import build_fleet
from skerry.runs.driver import Driver
from skerry.runs.executors.here import Here
from skerry.theory.communication import ONE_EACH
from skerry.theory.constants import Constants, constants_of

ROOT = Path(__file__).parents[2]
STEPSIZES = {
    "digits": (10**-1.5, 0.1, 10**-0.5, 1.0),
    "mnist": (10**-2.5, 0.01, 10**-1.5, 0.1),  # the paper's
}
REGIMES = tuple(product(("iid", "non_iid"), ("iid", "dirichlet")))
TOPOLOGIES, SHARES = "ring,grid,complete", "0.2,0.6"
PERIODS = (5, 20)
GOALS: tuple[Goal, ...] = ("global", "own")
TWO, ALL = "s2s,s2a", "s2s,s2a,blend"
FIRST_TRUTH_SEED = 1000
LEAST_SEEDS = 4

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    inter: str
    intra: str
    topology: str
    share: float
    period: int

    def experiment(self, dataset: str, devices: int) -> Experiment:
        sampled = round(self.share * devices)
        return Experiment.parse(
            {},
            [
                f"network.devices={devices}",
                f"network.topology={self.topology}",
                f"data.dataset={dataset}",
                f"data.inter={self.inter}",
                f"data.intra={self.intra}",
                f"server.sampled={sampled}",
                f"server.period={self.period}",
                f"training.stepsize={STEPSIZES[dataset][1]}",
            ],
        )


@dataclass
class AdviceStudy:
    """One run of the study: its settings, its store and the seeds that are done."""

    dataset: str
    devices: int
    device: str
    settings: Sequence[str]
    among: str
    looks: int
    """Minimum number of evaluations in the last fifth of the rounds."""
    topologies: Sequence[str]
    shares: Sequence[float]
    driver: Driver
    truth_seeds: int = 0
    """Number of truth seeds that have been run; the advice has its own seeds."""
    pilot_seeds: int = 0

    def __post_init__(self) -> None:
        self.stepsizes = STEPSIZES[self.dataset]
        self._constants: dict[tuple[str, str], Constants] = {}
        self.selections = read_among(self.among).selections or ("uniform",)

    def cells_of(self, regime: tuple[str, str]) -> list[Cell]:
        return [Cell(*regime, *rest) for rest in product(self.topologies, self.shares, PERIODS)]

    def experiment(self, cell: Cell) -> Experiment:
        return cell.experiment(self.dataset, self.devices).with_settings(*self.settings)

    def menu(self, experiment: Experiment) -> Menu:
        server = (experiment.server.sampled, experiment.server.period)
        primitives, islands = read_among(self.among).primitives, len(experiment.network.sizes)
        tried = candidates(primitives, [server], self.selections, islands)
        return Menu(tuple(tried), self.stepsizes)

    def budget(self, experiment: Experiment) -> Budget:
        """A budget without a limit and without the cost of links."""
        return Budget(ONE_EACH, self.devices, 0, 0, experiment.rounds)

    def base(self, experiment: Experiment) -> Experiment:
        menu = self.menu(experiment)
        return for_pilot(Question(), experiment, self.budget(experiment), menu, self.looks)

    def run(self, truth_seeds: int, pilot_seeds: int, seconds: float) -> None:
        """Run all regimes seed by seed, so that the study can end after any seed."""
        began = time.monotonic()
        for number in range(max(truth_seeds, pilot_seeds)):
            if number >= LEAST_SEEDS and time.monotonic() - began > seconds:
                return
            if number < pilot_seeds:
                self._run_seed(number)
                self.pilot_seeds += 1
            if number < truth_seeds:
                self._run_seed(FIRST_TRUTH_SEED + number)
                self.truth_seeds += 1

    def _run_seed(self, seed: int) -> None:
        """Run all cells of each regime as lanes of one stack."""
        for regime in REGIMES:
            began, runs = time.monotonic(), []
            for cell in self.cells_of(regime):
                experiment = self.experiment(cell)
                base = self.base(experiment)
                runs += [entry.run(base, seed) for entry in self.menu(experiment).entries]
            if waiting := self.driver.waiting(runs):
                self.driver.run(waiting)
            seconds = time.monotonic() - began
            print(
                f"{'/'.join(regime)}, seed {seed}: {len(runs)} lanes, {seconds:.1f} s", flush=True
            )

    def rows(self) -> list[Row]:
        return [self._row(cell) for regime in REGIMES for cell in self.cells_of(regime)]

    def _row(self, cell: Cell) -> Row:
        experiment = self.experiment(cell)
        truth = self._truth(experiment)
        return {
            **asdict(cell),
            "sampled": experiment.server.sampled,
            "goals": {goal: self._goal(experiment, truth, goal) for goal in GOALS},
        }

    def pilot(self, experiment: Experiment, question: Question) -> Pilot:
        """A pilot with the entries of the menu that the question allows."""
        return Pilot(
            question=question,
            base=self.base(experiment),
            budget=self.budget(experiment),
            scores=PilotScores({goal: ACCURACIES[goal] for goal in GOALS}),
            entries=[
                entry
                for entry in self.menu(experiment).entries
                if (entry.candidate.primitive, entry.candidate.beta) in question.among.primitives
                and entry.candidate.selection in (question.among.selections or self.selections)
            ],
        )

    def _truth(self, experiment: Experiment) -> PilotScores:
        """Scores of the truth seeds, whose runs are in the store already."""
        truth = self.pilot(experiment, Question(among=read_among(self.among)))
        seeds = [FIRST_TRUTH_SEED + number for number in range(self.truth_seeds)]
        run_entries(truth, truth.entries, seeds, self.driver)
        return truth.scores

    def _goal(self, experiment: Experiment, truth: PilotScores, goal: Goal) -> Row:
        first = [e for e in truth.values if e.candidate.selection == self.selections[0]]
        best_of = truth.best_by_primitive(first, goal)
        s2s, s2a = best_of["s2s"], best_of["s2a"]
        gap = compare_seeds(truth.by_seed(s2a, goal), truth.by_seed(s2s, goal)).difference
        winner = "s2a" if gap.mean > 0 else "s2s"
        named = self._advice(experiment, goal, f"{TWO},{self.selections[0]}")
        row = {
            "s2s": truth.mean(s2s, goal),
            "s2a": truth.mean(s2a, goal),
            "stepsizes": [s2s.stepsize, s2a.stepsize],
            "gap": gap.mean,
            "standard_error": gap.standard_error,
            "winner": winner,
            "advice": {
                "primitive": named.best.candidate.primitive,
                "stepsize": named.best.stepsize,
                "gap": named.rivals[0].lead.mean,
                "half_width": named.rivals[0].lead.half_width,
                "verdict": named.verdict,
                "seeds": named.score.count,
            },
        }
        if self.among != TWO:
            best = s2a if winner == "s2a" else s2s
            free = self._advice(experiment, goal, self.among)
            row["free"] = self._free(free, truth, goal, best)
            if len(self.selections) > 1:
                row["selection"] = self._selection(free, truth, goal)
        return row

    def _selection(self, free: Decision, truth: PilotScores, goal: Goal) -> Row:
        """Compare two selection rules, each at its best primitive and stepsize."""
        by_rule = truth.best_of_each(truth.values, goal, lambda candidate: candidate.selection)
        usual, other = (truth.by_seed(by_rule[rule], goal) for rule in self.selections)
        gap = compare_seeds(other, usual).difference
        clear = all(rival.is_clear for rival in free.selections)
        return {
            "gap": gap.mean,
            "standard_error": gap.standard_error,
            "winner": self.selections[gap.mean > 0],
            "advice": free.best.candidate.selection,
            "verdict": "clear" if clear else "unclear",
        }

    def _free(self, free: Decision, truth: PilotScores, goal: Goal, best: Entry) -> Row:
        """Compare the advice among all candidates with the better of S2S and S2A."""
        scores = truth.by_seed(free.best, goal), truth.by_seed(best, goal)
        lead = compare_seeds(*scores).difference
        return {
            "label": free.best.candidate.label,
            "stepsize": free.best.stepsize,
            "verdict": free.verdict,
            "lead": lead.mean,
            "standard_error": lead.standard_error,
        }

    def _advice(self, experiment: Experiment, goal: Goal, among: str) -> Decision:
        """The decision of `skerry.advise` for this experiment, from its pilot runs."""
        question = Question(
            goal=goal, among=read_among(among), stepsizes=self.stepsizes, seeds=self.pilot_seeds
        )
        pilot = self.pilot(experiment, question)
        race(pilot, self.driver, Timer(600), AdviceProgress())
        found = decide(pilot.scores, goal, pilot.entries)
        assert found is not None, "some stepsize is small enough"
        return found

    def theory(self, cell: Cell) -> str | None:
        """The primitive that the bounds favour, or None. Constants are measured once per regime:
        the links enter through their mixing parameter, K and H only through the bounds."""
        experiment, regime = self.experiment(cell), (cell.inter, cell.intra)
        if regime not in self._constants:
            world = build_world(experiment, device=pick_device(self.device))
            self._constants[regime] = constants_of(world, rounds=(0, 10), draws=4)
        mixing = build_fleet(experiment.network, experiment.seed).mixing_parameters()
        constants = replace(self._constants[regime], experiment=experiment, mixing=mixing)
        found = predict(constants, experiment.rounds, ONE_EACH)
        return found.favours() if found else None


def main() -> None:
    asked = arguments()
    name = asked.name or asked.dataset
    file = asked.results / f"{name}.json"
    if not asked.only_render:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
        folder = asked.store or ROOT / "runs" / f"advise-{name}"
        place = Here(device=asked.device)
        with Driver(place, folder, keep_going=False, checkpoint_seconds=float("inf")) as driver:
            study_to(file, asked, driver)
    result = json.loads(file.read_text())
    print("\n".join(summary(result["rows"])))
    render(result, asked.page)


def study_to(file: Path, asked: argparse.Namespace, driver: Driver) -> None:
    """Run the study; write the rows first, then add the theory's choices."""
    began = time.monotonic()
    study = AdviceStudy(
        asked.dataset,
        asked.devices,
        asked.device,
        asked.set,
        asked.among,
        asked.looks,
        asked.topologies.split(","),
        [float(share) for share in asked.shares.split(",")],
        driver,
    )
    try:
        study.run(asked.truth_seeds, asked.pilot_seeds, 60 * asked.minutes)
    except KeyboardInterrupt:
        print(f"Stopped: {study.truth_seeds} truth and {study.pilot_seeds} pilot seeds.")
    facts = ("dataset", "devices", "among", "looks", "truth_seeds", "pilot_seeds")
    result = {name: getattr(study, name) for name in facts}
    result |= {
        "name": asked.name or asked.dataset,
        "command": command(sys.argv),
        "seconds": round(time.monotonic() - began),
    }
    rows = study.rows()
    write(file, result | {"rows": rows})
    for row in rows:
        row["theory"] = study.theory(Cell(**{one.name: row[one.name] for one in fields(Cell)}))
    write(file, result | {"rows": rows})


def command(words: Sequence[str]) -> str:
    return shlex.join(["python", "studies/advice/run.py", *words[1:]])


def write(file: Path, result: Row) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, f"{json.dumps(_rounded(result), allow_nan=False)}\n".encode())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=STEPSIZES, default="digits")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--name", help="of the results and the table; default: the dataset's")
    parser.add_argument("--among", default=ALL, help="the candidates; at most two selections")
    parser.add_argument("--topologies", default=TOPOLOGIES)
    parser.add_argument("--shares", default=SHARES, help="K/n")
    parser.add_argument("--looks", type=int, default=LOOKS[0], help="into the last fifth")
    parser.add_argument("--truth-seeds", type=int, default=12)
    parser.add_argument("--pilot-seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for the sweeps")
    parser.add_argument("--set", action="append", default=[], help="a field, for all runs")
    parser.add_argument("--store", type=Path, help="kept runs; default: runs/advise-DATASET")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "advise.md")
    parser.add_argument("--only-render", action="store_true", help="from recorded results")
    return parser.parse_args()


def _rounded(value):
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
