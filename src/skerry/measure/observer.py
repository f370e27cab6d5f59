"""From moments to rows of measures: what is asked for, when it is due, for every lane."""

import math

import torch
from torch import Tensor

from skerry.engine.simulate import Moment, is_evaluated
from skerry.engine.stack import Stack
from skerry.experiment import MEASURES
from skerry.measure.accuracy import DeviceScores, average_model
from skerry.measure.disagreement import Spread, bias, spread
from skerry.measure.ledger import Ledger

Row = dict[str, float]


class Observer:
    """Watches the moments of one stack.

    Rows are due at evaluations; lanes that met the server also get a row with their consensus
    measures in between, so that no D2S round goes unseen. What a row does not measure is absent.
    """

    def __init__(self, stack: Stack, ledger: Ledger | None = None):
        self.world = stack.world
        self.wanted = stack.world.experiment.evaluate.wanted
        self.ledger = ledger or Ledger()
        self._devices = DeviceScores(stack.world)
        self._before: dict[int, Spread] = {}
        """By first lane of a group that is about to meet the server."""

    def wants(self, group: str) -> bool:
        return not self.wanted.isdisjoint(MEASURES[group])

    def see(self, moment: Moment) -> dict[str, Row]:
        """The rows that are due at this moment, by the lane's key."""
        if moment.phase == "before_server":
            self._look_before_server(moment)
            return {}
        if moment.phase == "end":
            self.ledger.add_round(moment.stack, moment.meetings, moment.round - 1)
        rows: dict[str, Row] = {}
        evaluated = moment.phase == "start" or is_evaluated(moment.stack, moment.round)
        if evaluated:
            self._evaluate(moment, rows)
        self._compare_with_before(moment, rows, evaluated)
        for lane in moment.diverged:
            rows.pop(moment.stack.keys[lane], None)
        return {
            key: {"round": moment.round, **{m: v for m, v in row.items() if m in self.wanted}}
            for key, row in rows.items()
        }

    def _look_before_server(self, moment: Moment) -> None:
        self._before = {}
        if self.wants("consensus"):
            for group in moment.stack.servers:
                if group.meets(moment.round - 1):
                    X = moment.state.X_nld[:, group.lanes]
                    self._before[group.lanes.start] = spread(X, self.world.sizes)

    def _evaluate(self, moment: Moment, rows: dict[str, Row]) -> None:
        X, keys = moment.state.X_nld, moment.stack.keys
        values: dict[str, Tensor] = {}
        if self.wants("average") or self.wants("consensus"):
            now = spread(X, self.world.sizes)
            values |= _consensus(now)
            if self.wants("average"):
                values |= average_model(self.world, now.average_ld)
        if self.wants("devices") and self.world.learner.classifies:
            values |= self._devices.measure(X)
        if moment.train_loss_l is not None:
            values["train_loss"] = moment.train_loss_l
        _put(rows, keys, values)
        for key in keys:
            rows.setdefault(key, {}).update(self.ledger.measure(key, self.world.learner.parameters))

    def _compare_with_before(self, moment: Moment, rows: dict[str, Row], evaluated: bool) -> None:
        for meeting in moment.meetings:
            before = self._before.get(meeting.lanes.start)
            if before is None:
                continue
            after = spread(moment.state.X_nld[:, meeting.lanes], self.world.sizes)
            moved = bias(before, after)
            values = {f"{name}_before": value for name, value in _consensus(before).items()}
            values |= {
                "bias": moved,
                "disagreement_ratio": after.total_l / before.total_l,
                "bias_ratio": moved / before.total_l,
            }
            if not evaluated:
                values |= _consensus(after)
            _put(rows, moment.stack.keys[meeting.lanes], values)


def _consensus(now: Spread) -> dict[str, Tensor]:
    return {
        "disagreement": now.total_l,
        "disagreement_intra": now.intra_l,
        "disagreement_inter": now.inter_l,
    }


def _put(rows: dict[str, Row], keys: tuple[str, ...], values: dict[str, Tensor]) -> None:
    if not values:
        return
    table = torch.stack(list(values.values())).tolist()  # one transfer from the GPU for all
    for name, value_l in zip(values, table, strict=True):
        for key, value in zip(keys, value_l, strict=True):
            # 0/0: devices that agree have no ratio; the row leaves it out.
            if not math.isnan(value):
                rows.setdefault(key, {})[name] = value
