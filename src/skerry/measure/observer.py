"""Observe the moments of a stack: take the wanted measures when they are due, for every lane."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.measures import GROUPS
from skerry.engine.ranks.group import Rank
from skerry.engine.round import is_server_round
from skerry.engine.simulate import Moment, is_evaluated
from skerry.engine.stack import Stack
from skerry.engine.timing import measure_clocks
from skerry.kernels.cuda_graph import MAX_MODEL_BYTES, CapturedFunction
from skerry.measure.accuracy import average_model, bytes_per_score
from skerry.measure.custom_measures import CustomMeasures
from skerry.measure.device_scores import DeviceScorer, DeviceTable, ScoresByDevice
from skerry.measure.disagreement import Spread, spread, spread_over_ranks, squared_shift
from skerry.measure.ledger import Ledger
from skerry.models.layout import set_aside

Row = dict[str, float]
Columns = dict[str, NDArray[np.float64]]

SAMPLED = ("sampled_devices", "sampled_islands", "sampled_fewest", "sampled_most")


@dataclass(frozen=True)
class Reading:
    """The measures of all lanes of a stack after one round, NaN where a lane does not have one.
    Values stay on the GPU until they are asked for, because asking makes a GPU wait: a run that is
    evaluated every round asks once per checkpoint."""

    round: int
    keys: tuple[str, ...]
    due: tuple[int, ...]  # the lanes that get a row
    names: tuple[str, ...]
    table: Tensor  # values on the compute device, [measures, lanes]
    counted: dict[str, NDArray[Any]]  # values known to the host, [lanes] each

    def rows(self) -> dict[str, Row]:
        """The rows of the due lanes by the lane's key, without NaN."""
        return {
            key: {name: float(value) for name, (value,) in columns.items() if not np.isnan(value)}
            for key, columns in columns_by_key([self]).items()
        }


class Observer:
    """Takes the measures of one stack, moment by moment. A reading is due at every evaluation. A
    lane with a server round between two evaluations gets a row with its consensus measures too, so
    that every server round is recorded."""

    def __init__(self, stack: Stack, ledger: Ledger | None = None, keeps_scores: bool = False):
        """With `keeps_scores`, `complete` need not score devices again in the same round."""
        self.world = stack.world
        self.wanted = stack.world.experiment.evaluate.wanted
        self.ledger = ledger or Ledger()
        self._devices = DeviceScorer(stack.world)
        self._custom = CustomMeasures(stack.world)
        self.device_tables: dict[str, DeviceTable] = {}
        """The scores of every device in the lane's last round, by the lane's key."""
        self._keeps_scores = keeps_scores
        self._scored: tuple[int, ScoresByDevice] | None = None
        """The newest scores of all devices, with their round."""
        self._before: Spread | None = None
        """The spread before the server round that is about to happen, if there is one."""
        # Three captures of the same work, because a replay overwrites its earlier result.
        alone = not isinstance(stack.world.ranks, Rank)  # messages of ranks cannot be captured
        self._spread_before = CapturedFunction(self._spread, enabled=alone)
        self._spread_after = CapturedFunction(self._spread, enabled=alone)
        self._spread_and_score = CapturedFunction(self._with_average_model, enabled=alone)

    def wants(self, group: str) -> bool:
        return not self.wanted.isdisjoint(GROUPS[group])

    def rows(self, moment: Moment) -> dict[str, Row]:
        """The rows that are due at this moment, by the lane's key."""
        reading = self.read(moment)
        return reading.rows() if reading else {}

    def read(self, moment: Moment) -> Reading | None:
        """The reading that is due at this moment, if any."""
        if moment.phase == "before_server":
            has_server = is_server_round(moment.stack, moment.state)
            measures = has_server and self.wants("consensus")
            self._before = self._spread_before(moment.state.X_nld) if measures else None
            return None
        if moment.phase == "end":
            self.ledger.add_round(moment.stack, moment.server_rounds, moment.round - 1)
        evaluated = moment.phase == "start" or is_evaluated(moment.stack, moment.round)
        compared = self._before is not None and bool(moment.server_rounds)
        counted = bool(moment.server_rounds) and self.wants("participation")
        if not (evaluated or compared or counted):
            return None
        values: dict[str, Tensor] = {}
        now: Spread | None = None
        if compared or self.wants("average") or self.wants("consensus"):
            scored = evaluated and self.wants("average")
            now, found = self._spread_and_average(moment.state.X_nld, scored)
            values |= _consensus(now) | found
        if evaluated:
            values |= self._evaluate(moment)
        if moment.server_rounds and self.wants("participation"):
            values |= _sampled(moment)
        if compared:
            assert self._before is not None
            assert now is not None
            values |= _only_server_lanes(moment, _changes(self._before, now))
        return self._reading(moment, values, evaluated)

    def _spread(self, X_nld: Tensor) -> Spread:
        """The spread of what devices share, around the average of whole models."""
        world, ranks = self.world, self.world.ranks
        with set_aside(world.private, X_nld) as kept:
            if isinstance(ranks, Rank):
                now = spread_over_ranks(X_nld, ranks)
            else:
                now = spread(X_nld, world.sizes)
        for parameter, values in zip(world.private, kept, strict=True):
            mean_ld = ranks.mean(values.reshape(*X_nld.shape[:2], -1), world.n)
            place = parameter.of(now.average_ld)
            place.copy_(mean_ld.view_as(place))
        return now

    def _with_average_model(self, X_nld: Tensor) -> tuple[Spread, dict[str, Tensor]]:
        now = self._spread(X_nld)
        return now, average_model(self.world, now.average_ld)

    def _spread_and_average(self, X_nld: Tensor, scored: bool) -> tuple[Spread, dict[str, Tensor]]:
        """The spread of the devices, and the measures of the average model if it is scored."""
        if not scored:
            return self._spread_after(X_nld), {}
        pairs = X_nld.shape[1] * len(self.world.y_test)
        if pairs * bytes_per_score(self.world) > MAX_MODEL_BYTES:
            return self._with_average_model(X_nld)  # a captured graph would keep its temporaries
        return self._spread_and_score(X_nld)

    def complete(self, moment: Moment, reading: Reading, lanes: Sequence[int]) -> Reading:
        """The reading with the last row of lanes that end here, whose devices are scored too."""
        if not (lanes and self._scores_devices):
            return reading
        values: dict[str, Tensor] = {}
        if self._scored is None or self._scored[0] != moment.round:
            values = self._score_devices(moment)
            values = {name: value for name, value in values.items() if name in self.wanted}
        assert self._scored is not None
        tables = self._scored[1].tables(self.world, moment.stack.keys)
        self.device_tables |= {key: tables[key] for key in (moment.stack.keys[i] for i in lanes)}
        if not values:
            return reading
        others = torch.ones(len(moment.stack), dtype=torch.bool, device=reading.table.device)
        others[list(lanes)] = False
        rows = torch.stack([*values.values()]).masked_fill(others, torch.nan)
        table = torch.cat([reading.table, rows.to(reading.table.dtype)])
        return replace(reading, names=(*reading.names, *values), table=table)

    @property
    def _scores_devices(self) -> bool:
        wanted = any(map(self.wants, ("devices", "fairness", "label_mix")))
        return wanted and self.world.learner.classifies

    def _evaluate(self, moment: Moment) -> dict[str, Tensor]:
        values: dict[str, Tensor] = {}
        last = moment.round == self.world.rounds
        due = last or moment.round % self.world.experiment.evaluate.devices_every == 0
        if due and self._scores_devices:
            values |= self._score_devices(moment)
        if moment.train_loss_l is not None:
            values["train_loss"] = moment.train_loss_l
        if self.wants("participation") and moment.phase == "end":
            values["awake_devices"] = self._awake(moment)
        return values | self._custom.measure(moment)

    def _score_devices(self, moment: Moment) -> dict[str, Tensor]:
        alike = moment.phase == "start" and self.world.starts is None
        found = self._devices.score(moment.state.X_nld, alike)
        self._scored = (moment.round, found) if self._keeps_scores else None
        if moment.round == self.world.rounds:
            self.device_tables = found.tables(self.world, moment.stack.keys)
        values = self._devices.measure(found)
        if self.wants("fairness"):
            values |= found.fairness(self.world.island_n)
        return values

    def _awake(self, moment: Moment) -> Tensor:
        """How many devices were awake in this round, in every lane."""
        awake_l = moment.state.X_nld.new_full((len(moment.stack),), self.world.n)
        for group in moment.stack.mixing:
            if group.awake is not None:
                awake_l[group.lanes] = int(group.awake(moment.round - 1).sum())
        return awake_l

    def _reading(self, moment: Moment, values: dict[str, Tensor], evaluated: bool) -> Reading:
        keys, X = moment.stack.keys, moment.state.X_nld
        due = set(range(len(keys))) if evaluated else _lanes_with_server(moment)
        wanted = {name: value for name, value in values.items() if name in self.wanted}
        counted = self.ledger.measure(moment.stack) if evaluated else {}
        return Reading(
            moment.round,
            keys,
            tuple(sorted(due - set(moment.diverged))),
            tuple(wanted),
            torch.stack([*wanted.values()]) if wanted else X.new_empty(0, len(keys)),
            {name: count for name, count in counted.items() if name in self.wanted}
            | measure_clocks(moment.stack, moment.state.memory),
        )


def _lanes_with_server(moment: Moment) -> set[int]:
    lanes = range(len(moment.stack))
    return {lane for server_round in moment.server_rounds for lane in lanes[server_round.lanes]}


def _sampled(moment: Moment) -> dict[str, Tensor]:
    """How many devices and islands were sampled, in the lanes with a server round."""
    world, nobody = moment.stack.world, moment.state.X_nld.new_full((len(moment.stack),), torch.nan)
    found = {name: nobody.clone() for name in SAMPLED}
    for server_round in moment.server_rounds:
        islands_k = world.fleet.island_of[server_round.devices_k.cpu().numpy()]
        counts_c = np.bincount(islands_k, minlength=len(world.sizes))
        counts = (len(islands_k), server_round.islands, counts_c.min(), counts_c.max())
        for name, count in zip(SAMPLED, counts, strict=True):
            found[name][server_round.lanes] = int(count)
    return found


def _consensus(now: Spread) -> dict[str, Tensor]:
    return {
        "disagreement": now.total_l,
        "disagreement_intra": now.intra_l,
        "disagreement_inter": now.inter_l,
    }


def _changes(before: Spread, after: Spread) -> dict[str, Tensor]:
    """Measures of what the server changed. Devices that agreed before have the ratio 0/0, NaN."""
    moved = squared_shift(before, after)
    return {
        **{f"{name}_before": value for name, value in _consensus(before).items()},
        "bias": moved,
        "disagreement_ratio": after.total_l / before.total_l,
        "bias_ratio": moved / before.total_l,
    }


def _only_server_lanes(moment: Moment, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values, with NaN in the lanes without a server round."""
    lanes = _lanes_with_server(moment)
    if len(lanes) == len(moment.stack):
        return values
    away = torch.tensor([lane not in lanes for lane in range(len(moment.stack))])
    away = away.to(moment.state.X_nld.device)
    return {name: value.masked_fill(away, torch.nan) for name, value in values.items()}


def columns_by_key(readings: Sequence[Reading]) -> dict[str, Columns]:
    """Readings of successive rounds as columns of each lane, by the lane's key."""
    stacks = dict.fromkeys(reading.keys for reading in readings)
    lane_of = _places(key for keys in stacks for key in keys)
    lanes_of = {keys: np.array([lane_of[key] for key in keys], dtype=int) for keys in stacks}
    measure_of = _places(name for r in readings for name in (*r.names, *r.counted))
    values_lmr = np.full((len(lane_of), len(measure_of), len(readings)), np.nan)
    due_lr = np.zeros((len(lane_of), len(readings)), dtype=bool)
    for r, (reading, table) in enumerate(zip(readings, _fetch_tables(readings), strict=True)):
        due = np.array(reading.due, dtype=int)
        lanes = lanes_of[reading.keys][due]
        due_lr[lanes, r] = True
        for name, values in (*zip(reading.names, table, strict=True), *reading.counted.items()):
            values_lmr[lanes, measure_of[name], r] = values[due]
    rounds = np.array([reading.round for reading in readings], dtype=np.float64)
    found = {}
    for key, values_mr, due_r in zip(lane_of, values_lmr, due_lr, strict=True):
        if due_r.any():
            own_mr = values_mr[:, due_r]
            taken_m = ~np.isnan(own_mr).all(axis=1)  # a measure that was never taken has no column
            columns = dict(compress(zip(measure_of, own_mr, strict=True), taken_m))
            found[key] = {"round": rounds[due_r]} | columns
    return found


def _places(names: Iterable[str]) -> dict[str, int]:
    """Each name once, with its place in the order."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _fetch_tables(readings: Sequence[Reading]) -> list[NDArray[np.float64]]:
    """The tables of all readings, fetched from the GPU in one transfer."""
    if not readings:
        return []
    flat = torch.cat([reading.table.flatten().double() for reading in readings]).cpu().numpy()
    ends = np.cumsum([reading.table.numel() for reading in readings])[:-1]
    pieces = np.split(flat, ends)
    return [piece.reshape(one.table.shape) for piece, one in zip(pieces, readings, strict=True)]
