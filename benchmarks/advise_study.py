"""Does advice name the winner? Four regimes, three topologies, K/n in {.2, .6}, H in {5, 20}.

    python benchmarks/advise_study.py --dataset digits [--device auto] [--devices 100]
    python benchmarks/advise_study.py --dataset mnist --device cuda --minutes 4.5

The truth of a cell is a paired sweep over many seeds, the stepsize tuned for each primitive and
goal. Advice sees other seeds. Both run all cells of a regime and seed as lanes of one stack and are
kept in a store, so that an interrupted study goes on where it was; --minutes ends the sweeps early,
with fewer seeds. Asked of every cell and goal:
- s2s or s2a? (advice among these two);
- anything (blends too): is it at least as good as both of them?
Results: benchmarks/results/advise-DATASET.json, and the tables in docs/advise.md.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

from skerry.advice.contenders import contenders
from skerry.advice.decision import Decision, decide
from skerry.advice.ground import Ground
from skerry.advice.pilot import race
from skerry.advice.planning import Menu, for_pilot, plan
from skerry.advice.prediction import predict
from skerry.advice.question import Goal, Question, read_among
from skerry.advice.readings import CLASSIFIERS, Readings
from skerry.advice.setting import purse_of
from skerry.advice.timing import Timer, Watch
from skerry.engine.world import build_world, pick_device
from skerry.experiment import Experiment
from skerry.records.store import Store
from skerry.sweep.pairing import compare_seeds
from skerry.theory.communication import ONE_EACH
from skerry.theory.constants import Constants, constants_of

ROOT = Path(__file__).parents[1]
STEPSIZES = {
    "digits": (10**-1.5, 0.1, 10**-0.5, 1.0),
    "mnist": (10**-2.5, 0.01, 10**-1.5, 0.1),  # the paper's
}
REGIMES = tuple(product(("iid", "non_iid"), ("iid", "dirichlet")))
TOPOLOGIES = ("ring", "grid", "complete")
SHARES, PERIODS = (0.2, 0.6), (5, 20)
GOALS: tuple[Goal, ...] = ("global", "own")
TWO, ALL = "s2s,s2a", "s2s,s2a,blend"
FIRST_TRUTH_SEED = 1000
LEAST_SEEDS = 4


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


def cells_of(regime: tuple[str, str]) -> list[Cell]:
    return [Cell(*regime, *rest) for rest in product(TOPOLOGIES, SHARES, PERIODS)]


@dataclass
class Study:
    dataset: str
    devices: int
    device: str
    settings: Sequence[str]
    store: Store
    truth_seeds: int = 0
    """So many have been run; advice has seeds of its own."""
    pilot_seeds: int = 0

    def __post_init__(self) -> None:
        self.stepsizes = STEPSIZES[self.dataset]
        self.ground = Ground(self.store, device=self.device)
        self._constants: dict[tuple[str, ...], Constants] = {}

    def experiment(self, cell: Cell) -> Experiment:
        return cell.experiment(self.dataset, self.devices).with_settings(*self.settings)

    def menu(self, experiment: Experiment) -> Menu:
        server = (experiment.server.sampled, experiment.server.period)
        return Menu(tuple(contenders(read_among(ALL), [server])), self.stepsizes)

    def base(self, experiment: Experiment) -> Experiment:
        return for_pilot(experiment, experiment.rounds, self.menu(experiment))

    def run(self, truth_seeds: int, pilot_seeds: int, seconds: float) -> None:
        """Seed by seed for all regimes, so that it can end after any of them."""
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
        """All cells of a regime as lanes of one stack."""
        for regime in REGIMES:
            began, runs = time.monotonic(), []
            for cell in cells_of(regime):
                experiment = self.experiment(cell)
                base = self.base(experiment)
                runs += [lane.run(base, seed) for lane in self.menu(experiment).lanes]
            self.ground.run(runs)
            seconds = time.monotonic() - began
            print(
                f"{'/'.join(regime)}, seed {seed}: {len(runs)} lanes, {seconds:.1f} s", flush=True
            )

    def rows(self) -> Iterator[dict[str, object]]:
        return (self._row(cell) for regime in REGIMES for cell in cells_of(regime))

    def _row(self, cell: Cell) -> dict[str, object]:
        experiment = self.experiment(cell)
        truth = self._truth(experiment)
        return {
            **asdict(cell),
            "sampled": experiment.server.sampled,
            "theory": self._theory(cell, experiment),
            "goals": {goal: self._goal(experiment, truth, goal) for goal in GOALS},
        }

    def _truth(self, experiment: Experiment) -> Readings:
        base, readings = self.base(experiment), Readings(CLASSIFIERS)
        for number in range(self.truth_seeds):
            seed = FIRST_TRUTH_SEED + number
            for lane in self.menu(experiment).lanes:
                history = self.ground.history(lane.run(base, seed))
                readings.add(lane, seed, history, experiment.rounds)
        return readings

    def _goal(self, experiment: Experiment, truth: Readings, goal: Goal) -> dict[str, object]:
        two = [lane for lane in truth.values if lane.contender.primitive != "blend"]
        s2s, s2a = (truth.best_by_kind(two, goal)[kind] for kind in ("s2s", "s2a"))
        gap = compare_seeds(truth.scores(s2a, goal), truth.scores(s2s, goal)).difference
        winner = "s2a" if gap.mean > 0 else "s2s"
        named, free = (self._advice(experiment, goal, among) for among in (TWO, ALL))
        chosen, best = free.best, s2a if winner == "s2a" else s2s
        lead = compare_seeds(truth.scores(chosen, goal), truth.scores(best, goal)).difference
        return {
            "s2s": truth.mean(s2s, goal),
            "s2a": truth.mean(s2a, goal),
            "stepsizes": [s2s.stepsize, s2a.stepsize],
            "gap": gap.mean,
            "standard_error": gap.standard_error,
            "winner": winner,
            "advice": {
                "primitive": named.best.contender.primitive,
                "stepsize": named.best.stepsize,
                "gap": named.rivals[0].gap.mean,
                "half_width": named.rivals[0].gap.half_width,
                "verdict": named.verdict,
                "seeds": named.score.count,
            },
            "free": {
                "label": chosen.contender.label,
                "stepsize": chosen.stepsize,
                "verdict": free.verdict,
                "lead": lead.mean,
                "standard_error": lead.standard_error,
            },
        }

    def _advice(self, experiment: Experiment, goal: Goal, among: str) -> Decision:
        """The pilot half of `skerry.advise`; its runs are in the store already."""
        question = Question(
            goal=goal, among=read_among(among), stepsizes=self.stepsizes, seeds=self.pilot_seeds
        )
        timer = Timer(600)
        # The world that `plan` asks for too: it is built once for all cells of a regime.
        purse = purse_of(question, experiment, self.ground.world(self.base(experiment)))
        pilot = plan(question, experiment, self.ground, purse, timer, [])
        race(pilot, self.ground, timer, Watch())
        found = decide(pilot.readings, goal, pilot.lanes)
        assert found is not None, "some stepsize is small enough"
        return found

    def _theory(self, cell: Cell, experiment: Experiment) -> str | None:
        """Constants depend on the data and the links; K and H enter in the bounds alone."""
        place = (cell.inter, cell.intra, cell.topology)
        if place not in self._constants:
            world = build_world(experiment, device=pick_device(self.device))
            self._constants[place] = constants_of(world, rounds=(0, 10), draws=4)
        constants = replace(self._constants[place], experiment=experiment)
        found = predict(constants, experiment.rounds, ONE_EACH)
        return found.favours() if found else None


# Telling


def summary(rows: Sequence[dict]) -> list[str]:
    lines = []
    for goal in GOALS:
        told = [row["goals"][goal] for row in rows]
        decided = [g for g in told if abs(g["gap"]) > 2 * g["standard_error"]]
        level = [g for g in told if abs(g["gap"]) <= g["standard_error"]]
        right = sum(g["advice"]["primitive"] == g["winner"] for g in decided)
        unclear = sum(g["advice"]["verdict"] == "unclear" for g in level)
        good = sum(g["free"]["lead"] >= -g["free"]["standard_error"] for g in told)
        ahead = sum(g["free"]["lead"] > 2 * g["free"]["standard_error"] for g in told)
        lines.append(
            f"{goal}: the winner is named in {right} of the {len(decided)} cells whose gap exceeds "
            f"two standard errors ({right / max(1, len(decided)):.0%}); 'no clear winner' in "
            f"{unclear} of {len(level)} within one. With blends among the candidates, the advice "
            f"is at least as good as both (within one standard error) in {good} of {len(told)}, "
            f"and clearly better in {ahead}."
        )
    known = [row for row in rows if row["theory"]]
    agree = sum(row["theory"] == row["goals"]["global"]["winner"] for row in known)
    lines.append(
        f"theory: the bounds prefer one of the two in {len(known)} of {len(rows)} cells, and it is "
        f"the measured winner of the average model in {agree} of them."
    )
    return lines


def table(rows: Sequence[dict]) -> list[str]:
    lines = [
        "| across / within | topology | K/n | H | average model: S2A − S2S | advice | with blends |"
        " own labels: S2A − S2S | advice | with blends |",
        "| --- | --- | ---: | ---: | ---: | --- | --- | ---: | --- | --- |",
    ]
    for row in rows:
        cells = [f"{row['inter']} / {row['intra']}", row["topology"], row["share"], row["period"]]
        for goal in GOALS:
            found = row["goals"][goal]
            advice, free = found["advice"], found["free"]
            decided = abs(found["gap"]) > 2 * found["standard_error"]
            wrong = decided and advice["primitive"] != found["winner"]
            unclear = advice["verdict"] == "unclear"
            cells += [
                f"{found['gap']:+.2f} ± {found['standard_error']:.2f}",
                f"{advice['primitive']}{', unclear' if unclear else ''}{' ✗' if wrong else ''}",
                f"{free['label']} ({free['lead']:+.2f})",
            ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def render(result: dict, page: Path) -> None:
    """Put the table between the page's markers."""
    name = f"study {result['dataset']}"
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, _, rest = text.partition(first)
    _, _, after = rest.partition(last)
    if not after:
        print(f"{page} has no place for it: {first} ... {last}")
        return
    about = (
        f"`{result['dataset']}`, {result['devices']} devices on two islands; truth from "
        f"{result['truth_seeds']} seeds, advice from at most {result['pilot_seeds']} others."
    )
    points = [f"- {line}" for line in summary(result["rows"])]
    body = "\n".join([first, about, "", *points, "", *table(result["rows"]), last])
    page.write_text(before + body + after, encoding="utf-8")


def main() -> None:
    asked = arguments()
    file = asked.results / f"advise-{asked.dataset}.json"
    if not asked.only_render:
        began = time.monotonic()
        with Store.open(asked.store or ROOT / "runs" / f"advise-{asked.dataset}") as store:
            study = Study(asked.dataset, asked.devices, asked.device, asked.set, store)
            study.run(asked.truth_seeds, asked.pilot_seeds, 60 * asked.minutes)
            rows = list(study.rows())
        facts = ("dataset", "devices", "truth_seeds", "pilot_seeds")
        result = {name: getattr(study, name) for name in facts}
        result |= {"seconds": round(time.monotonic() - began), "rows": _rounded(rows)}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result, allow_nan=False) + "\n")
    result = json.loads(file.read_text())
    print("\n".join(summary(result["rows"])))
    render(result, asked.page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=STEPSIZES, default="digits")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--truth-seeds", type=int, default=12)
    parser.add_argument("--pilot-seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for the sweeps")
    parser.add_argument("--set", action="append", default=[], help="a field, for all runs")
    parser.add_argument("--store", type=Path, help="kept runs; default: runs/advise-DATASET")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
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
