"""The search: which settings to run next, given the scores so far.

All factors are searched at once, on runs of full length. A surface (`surface.py`) is fitted to the
scores; joint draws from its posterior say how often each setting is the best, or the cheapest that
is level with the best. The settings that are so most often are run next, on new seeds: many
settings on one seed at first, few on several seeds later. Where such a setting lies at an end of a
range, the range is extended.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skerry.advice.question import Goal
from skerry.advice.scores import PilotScores
from skerry.advice.settings import NO_SERVER, Axis, Entry, Space, features
from skerry.advice.surface import Array, Surface, fit, two_way

Mask: TypeAlias = NDArray[np.bool_]

DRAWS = 256
MANY_DRAWS = 1024
CLIP = 10.0  # scores this many tolerances below the top count alike: the surface is for the top
LEVEL = 0.75  # fraction of the tolerance within which a draw's cheapest setting is looked for
BATCHES = ((60, 1), (40, 1), (24, 2), (12, 4))
"""(settings, new seeds) of a batch, in the four quarters of the search after its first stage."""
ENOUGH = 0.85  # fraction of the tolerance within which a cheaper setting is called level
SURE = 0.8  # probability of being level from which a cheaper setting is preferred
FAR = 1e-3  # weight of settings far below the top in the estimate of seeds' effects
PRIOR_RUNS = 5  # the noise of a run is taken for one tolerance, as if seen in this number of runs
AT_END = 0.25  # share of promising settings at an end of a range from which it is extended
BEYOND = 2.0  # settings up to this multiple of the budget are tried once, to tell what they gain


@dataclass
class ScoreModel:
    """The surface of one goal, over all settings of a space."""

    entries: list[Entry]
    cost_e: Array
    allowed: "np.ndarray[tuple[int], np.dtype[np.int64]]"  # indices of affordable settings
    surface: Surface
    raw_e: Array  # mean scores of tried settings, not clipped; -inf if never tried
    tolerance: float
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    best_only: bool = False  # whether scores are costs, so that the best setting is recommended

    @cached_property
    def index(self) -> dict[Entry, int]:
        return {entry: i for i, entry in enumerate(self.entries)}

    @cached_property
    def mean_e(self) -> Array:
        return self.surface.means()

    @cached_property
    def draws(self) -> Array:
        return self.surface.draws(MANY_DRAWS, self.rng)

    def tried(self, entry: Entry) -> bool:
        return entry in self.index and self.surface.count_e[self.index[entry]] > 0

    def is_far(self, entry: Entry) -> bool:
        """Whether a tried setting is so bad that the surface tells no difference from others."""
        raw_e = self.raw_e[[self.index[entry], *self.allowed.tolist()]]
        return bool(np.isfinite(raw_e[0]) and raw_e[0] < raw_e.max() - CLIP * self.tolerance)

    def hits(self) -> Array:
        """How often each setting is the best of a draw, or the cheapest that is level with it."""
        draw_da = self.surface.draws(DRAWS, self.rng)[:, self.allowed]
        cost_a = self.cost_e[self.allowed]
        top_d = draw_da.max(axis=1, keepdims=True)
        level_da = draw_da >= top_d - LEVEL * self.tolerance
        price_da = np.where(level_da, cost_a, np.inf)
        cheapest_da = price_da <= price_da.min(axis=1, keepdims=True)
        hits_e = np.zeros(len(self.entries))
        best_d = draw_da.argmax(axis=1)
        cheapest_d = np.where(cheapest_da, draw_da, -np.inf).argmax(axis=1)
        for chosen_d in (best_d, best_d if self.best_only else cheapest_d):
            np.add.at(hits_e, self.allowed[chosen_d], 1.0)
        return hits_e

    def best(self, among: Sequence[Entry] | None = None) -> Entry:
        """The setting with the highest expected score among affordable ones, or among these."""
        places = self.allowed.tolist() if among is None else [self.index[one] for one in among]
        return self.entries[max(places, key=lambda e: float(self.mean_e[e]))]

    def best_without_server(self) -> Entry:
        """The best tried stepsize without a server; it may be too bad for the surface."""
        bare = [e for e, entry in enumerate(self.entries) if not entry.candidate.has_server]
        return self.entries[max(bare, key=lambda e: float(self.raw_e[e]))]

    def cheapest_level(self, best: Entry, sure: float, among: Sequence[Entry]) -> Entry:
        """The cheapest of these settings that is level with the best, with this probability; the
        best itself where scores are costs."""
        if self.best_only:
            return best
        top_d = self.draws[:, self.index[best]] - ENOUGH * self.tolerance

        def chance(entry: Entry) -> float:
            return float((self.draws[:, self.index[entry]] >= top_d).mean())

        def rank(entry: Entry) -> tuple[float, float]:
            e = self.index[entry]
            return float(self.cost_e[e]), -float(self.mean_e[e])

        by_cost = sorted(among, key=rank)
        return next((entry for entry in by_cost if chance(entry) >= sure), best)


@dataclass
class Search:
    """The state of a search: the space, the scores, and the seeds used so far."""

    space: Space
    scores: PilotScores
    goal: Goal
    may_be_none: bool = True  # whether "no server" may be recommended
    seeds: list[int] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(29))

    def first(self) -> list[Entry]:
        """Settings in the order of the first stage: the experiment's own, then random ones."""
        entries, base = self.space.entries, self.space.base
        place = {entry: self.rng.random() for entry in entries}
        limit = BEYOND if self.space.budget.limit is not None else 1.0
        usual = [
            entry
            for entry in entries
            if entry.stepsize == base.training.stepsize
            and (not entry.candidate.has_server
                 or (entry.candidate.sampled, entry.candidate.period, entry.candidate.selection)
                 == (base.server.sampled, base.server.period, base.server.selection))
            and self.space.budget.allows(entry.candidate)
        ]  # fmt: skip
        bare = [entry for entry in entries if not entry.candidate.has_server]
        usual += self._dearest()
        rest = sorted(
            (e for e in entries if self.space.budget.allows(e.candidate, limit)),
            # Settings beyond the budget only tell what more would gain: one in six.
            key=lambda e: place[e] * (1 if self.space.budget.allows(e.candidate) else 6),
        )
        return list(dict.fromkeys([*usual, *bare, *rest]))

    def model(self, goal: Goal | None = None) -> ScoreModel:
        """The surface of a goal, fitted to all scores so far."""
        goal = goal or self.goal
        known = set(self.space.entries)
        entries = [*self.space.entries, *(e for e in self.scores.values if e not in known)]
        seeds = sorted({seed for found in self.scores.values.values() for seed in found})
        score_es = self.scores.utilities(goal, entries, seeds)
        allowed = self._allowed(entries)
        affordable = np.zeros(len(entries), dtype=bool)
        affordable[allowed] = True
        there_es = np.isfinite(score_es)
        count_e = there_es.sum(axis=1).astype(float)
        tried = count_e > 0
        # Effects of seeds mostly from the settings near the top: bad ones vary in other ways.
        # Single runs that collapsed count no less than the floor here, but fully in the mean of
        # their setting. The first guess is the best score of each seed.
        seed_s = np.max(score_es, axis=0, where=there_es, initial=-np.inf)
        for _ in range(4):
            level_es = score_es - seed_s
            raw_e = np.where(tried, _means(level_es), -np.inf)
            floor = self._floor(raw_e, tried & affordable, tried)
            is_near_e = raw_e >= floor
            floor_e = np.where(is_near_e, floor, -np.inf)
            weight_e = np.where(is_near_e, 1.0, FAR)
            near = two_way(np.maximum(level_es, floor_e[:, None]) + seed_s, weight_e)
            seed_s = near.seed_s
        level_es = score_es - seed_s
        raw_e = np.where(tried, _means(level_es), -np.inf)
        floor = self._floor(raw_e, tried & affordable, tried)
        usual = self.scores.tolerance
        noise = math.sqrt(
            (near.freedom * near.noise**2 + PRIOR_RUNS * usual**2) / (near.freedom + PRIOR_RUNS)
        )
        mean_e = np.maximum(raw_e, floor)
        surface = fit(features(entries, self.space), count_e, mean_e, noise)
        cost_e = np.array([self.space.budget.cost(entry.candidate) for entry in entries])
        scores = self.scores
        return ScoreModel(
            entries,
            cost_e,
            allowed,
            surface,
            raw_e,
            scores.tolerance,
            self.rng,
            scores.target is not None,
        )

    def _floor(self, mean_e: Array, preferred: Mask, tried: Mask) -> float:
        """The score below which settings count alike, a number of tolerances below the top."""
        top = np.sort(mean_e[preferred if preferred.any() else tried])[-5:].mean()
        return float(top - CLIP * self.scores.tolerance)

    def next_batch(self, progress: float) -> tuple[list[Entry], int]:
        """Settings to run next and the number of new seeds, after this share of the search."""
        model = self.model()
        hits_e = model.hits()
        self._extend(model, hits_e)
        most, seeds = BATCHES[min(len(BATCHES) - 1, int(progress * len(BATCHES)))]
        hit = np.argsort(-hits_e, kind="stable")[:most]
        chosen = [model.entries[e] for e in hit if hits_e[e] > 0]
        tried = [model.entries[e] for e in model.allowed if model.tried(model.entries[e])]
        if model.best_only and tried:
            # On a seed where no setting reaches the target, all of them would look alike.
            chosen.insert(0, model.best(tried))
        chosen += [entry for entry in self._dearest() if not model.tried(entry)]
        chosen += self._least_known(model, most - len(chosen))
        return list(dict.fromkeys([*chosen, model.best_without_server()])), seeds

    def _dearest(self) -> list[Entry]:
        """The affordable setting of every primitive and stepsize that costs most: what a server can
        gain at all."""
        budget = self.space.budget
        found: dict[tuple[str, float | None, str, float], Entry] = {}
        for entry in self.space.entries:
            c = entry.candidate
            if c.has_server and budget.allows(c):
                kind = (c.primitive, c.beta, c.preset, entry.stepsize)
                before = found.get(kind)
                if before is None or budget.cost(c) > budget.cost(before.candidate):
                    found[kind] = entry
        return list(found.values())

    def _least_known(self, model: ScoreModel, count: int) -> list[Entry]:
        """Affordable settings that ran least, the most promising of them: the surface may be wrong
        about a whole region."""
        if count <= 0:
            return []
        draw_de = model.surface.draws(DRAWS, self.rng)
        upper_e = draw_de.mean(axis=0) + 2 * draw_de.std(axis=0)
        runs_e = model.surface.count_e
        order = sorted(model.allowed.tolist(), key=lambda e: (runs_e[e], -upper_e[e]))
        return [model.entries[e] for e in order[:count]]

    def short_list(self, most: int) -> tuple[Entry, Entry, Entry, list[Entry]]:
        """(best, cheapest level, none, all settings to confirm), fixed before fresh seeds are run.

        To the most promising settings come the best ones at lower costs, for the curve.
        """
        model = self.model()
        allowed = [model.entries[e] for e in model.allowed]
        tried = [entry for entry in allowed if model.tried(entry)]
        best = model.best(tried)
        cheapest = model.cheapest_level(best, 0.5, tried)
        none = model.best_without_server()
        hits_e = model.hits()
        hit = sorted(tried, key=lambda entry: -hits_e[model.index[entry]])
        hit = [entry for entry in hit if hits_e[model.index[entry]] > 0]
        steps = self._cost_steps(model, tried, best)
        served = [entry for entry in tried if entry.candidate.has_server]
        shown = [model.best(served)] if served else []  # also where no server is best
        half = max(0, most - 4) // 2
        named = [best, cheapest, none, *shown]
        chosen = dict.fromkeys([*named, *hit[:half], *steps[:half], *hit, *steps])
        return best, cheapest, none, list(chosen)[: max(most, 4)]

    def _cost_steps(self, model: ScoreModel, tried: Sequence[Entry], best: Entry) -> list[Entry]:
        """The best setting within a half, a quarter ... of the cost of the best one; of seconds and
        joules, of what it costs beyond a run without a server."""
        found: list[Entry] = []
        budget = self.space.budget
        least = 0.0 if budget.unit == "messages" else budget.cost(NO_SERVER)
        limit = least + (model.cost_e[model.index[best]] - least) / 2
        while True:
            within = [e for e in tried if model.cost_e[model.index[e]] <= limit]
            served = [entry for entry in within if entry.candidate.has_server]
            if not served or limit <= least:
                return found
            # By plain means: most of these are too bad for the surface.
            found.append(max(served, key=lambda entry: float(model.raw_e[model.index[entry]])))
            limit = least + (model.cost_e[model.index[found[-1]]] - least) / 2

    def _allowed(self, entries: Sequence[Entry]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Indices of the affordable settings that may be recommended; where the budget pays for no
        server round, those without a server, whatever was asked for."""
        affordable = [e for e, one in enumerate(entries) if self.space.budget.allows(one.candidate)]
        served = [e for e in affordable if entries[e].candidate.has_server]
        return np.array(affordable if self.may_be_none or not served else served, dtype=np.int64)

    def _extend(self, model: ScoreModel, hits_e: Array) -> None:
        """Extend ranges at whose ends many of the promising settings lie."""
        at_end: Counter[tuple[Axis, bool]] = Counter()
        for e in np.flatnonzero(hits_e):
            for end in self.space.at_end(model.entries[e]):
                at_end[end] += int(hits_e[e])
        for end, hits in at_end.items():
            if hits >= AT_END * hits_e.sum():
                self.space = self.space.extended(*end) or self.space


def _means(score_es: Array) -> Array:
    """Means of rows over their finite values; 0 where there is none."""
    there_es = np.isfinite(score_es)
    return np.asarray(
        np.where(there_es, score_es, 0.0).sum(axis=1) / np.maximum(there_es.sum(axis=1), 1)
    )
