"""From moments to measures: what is asked for, when it is due, for every lane."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.measures import GROUPS
from skerry.engine.ranks.group import Rank
from skerry.engine.round import Meeting, is_server_round
from skerry.engine.simulate import Moment, is_evaluated
from skerry.engine.stack import Stack
from skerry.kernels.cuda_graph import MAX_MODEL_BYTES, CapturedFunction
from skerry.measure.accuracy import DeviceScores, average_model
from skerry.measure.by_device import DeviceTable
from skerry.measure.disagreement import Spread, bias, spread, spread_over_ranks
from skerry.measure.ledger import Ledger
from skerry.measure.own_measures import OwnMeasures
from skerry.measure.portions import bytes_of_a_score
from skerry.measure.reading import Reading, Row

SAMPLED = ("sampled_devices", "sampled_islands", "sampled_fewest", "sampled_most")


class Observer:
    """Watches the moments of one stack.

    Readings are due at evaluations; lanes that met the server also get a row with their consensus
    measures in between, so that no server round goes unseen.
    """

    def __init__(self, stack: Stack, ledger: Ledger | None = None):
        self.world = stack.world
        self.wanted = stack.world.experiment.evaluate.wanted
        self.ledger = ledger or Ledger()
        self._devices = DeviceScores(stack.world)
        self._own = OwnMeasures(stack.world)
        self.device_tables: dict[str, DeviceTable] = {}
        """By the lane's key, what every device scored in the last round."""
        self._before: Spread | None = None
        """The lanes as they were before the server acted, if it is about to."""
        # Three times the same, because a replay overwrites what it gave before.
        alone = not isinstance(stack.world.party, Rank)  # what others send cannot be recorded
        self._spread_before = CapturedFunction(self._spread, enabled=alone)
        self._spread_after = CapturedFunction(self._spread, enabled=alone)
        self._spread_and_score = CapturedFunction(self._with_average_model, enabled=alone)

    def wants(self, group: str) -> bool:
        return not self.wanted.isdisjoint(GROUPS[group])

    def see(self, moment: Moment) -> dict[str, Row]:
        """The rows that are due at this moment, by the lane's key."""
        reading = self.look(moment)
        return reading.rows() if reading else {}

    def look(self, moment: Moment) -> Reading | None:
        """The reading that is due at this moment, if any."""
        if moment.phase == "before_server":
            meets = is_server_round(moment.stack, moment.state)
            looks = meets and self.wants("consensus")
            self._before = self._spread_before(moment.state.X_nld) if looks else None
            return None
        if moment.phase == "end":
            self.ledger.add_round(moment.stack, moment.meetings, moment.round - 1)
        evaluated = moment.phase == "start" or is_evaluated(moment.stack, moment.round)
        compared = self._before is not None and bool(moment.meetings)
        counted = bool(moment.meetings) and self.wants("participation")
        if not (evaluated or compared or counted):
            return None
        values: dict[str, Tensor] = {}
        now: Spread | None = None
        if compared or self.wants("average") or self.wants("consensus"):
            now, found = self._seen(moment.state.X_nld, evaluated and self.wants("average"))
            values |= _consensus(now) | found
        if evaluated:
            values |= self._evaluated(moment)
        if moment.meetings and self.wants("participation"):
            values |= _sampled(moment)
        if compared:
            assert self._before is not None
            assert now is not None
            values |= _among_those_who_met(moment, _changes(self._before, now))
        return self._reading(moment, values, evaluated)

    def _spread(self, X_nld: Tensor) -> Spread:
        party = self.world.party
        if isinstance(party, Rank):
            return spread_over_ranks(X_nld, party)
        return spread(X_nld, self.world.sizes)

    def _with_average_model(self, X_nld: Tensor) -> tuple[Spread, dict[str, Tensor]]:
        now = self._spread(X_nld)
        return now, average_model(self.world, now.average_ld)

    def _seen(self, X_nld: Tensor, scored: bool) -> tuple[Spread, dict[str, Tensor]]:
        """How far devices stand apart, and what the average model scores."""
        if not scored:
            return self._spread_after(X_nld), {}
        pairs = X_nld.shape[1] * len(self.world.y_test)
        if pairs * bytes_of_a_score(self.world) > MAX_MODEL_BYTES:  # a graph keeps its temporaries
            return self._with_average_model(X_nld)
        return self._spread_and_score(X_nld)

    def _evaluated(self, moment: Moment) -> dict[str, Tensor]:
        values: dict[str, Tensor] = {}
        if self._scores_devices and self._devices_due(moment):
            values |= self._scored(moment)
        if moment.train_loss_l is not None:
            values["train_loss"] = moment.train_loss_l
        if self.wants("participation") and moment.phase == "end":
            values["awake_devices"] = self._awake(moment)
        return values | self._own.measure(moment)

    @property
    def _scores_devices(self) -> bool:
        wanted = self.wants("devices") or self.wants("fairness")
        return wanted and self.world.learner.classifies

    def _scored(self, moment: Moment) -> dict[str, Tensor]:
        found = self._devices.score(moment.state.X_nld, alike=moment.phase == "start")
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

    def _devices_due(self, moment: Moment) -> bool:
        every = self.world.experiment.evaluate.devices_every
        return moment.round % every == 0 or moment.round == self.world.rounds

    def _reading(self, moment: Moment, values: dict[str, Tensor], evaluated: bool) -> Reading:
        keys, X = moment.stack.keys, moment.state.X_nld
        due = set(range(len(keys))) if evaluated else _who_met(moment)
        wanted = {name: value for name, value in values.items() if name in self.wanted}
        counted = self.ledger.measure(moment.stack) if evaluated else {}
        return Reading(
            moment.round,
            keys,
            tuple(sorted(due - set(moment.diverged))),
            tuple(wanted),
            torch.stack([*wanted.values()]) if wanted else X.new_empty(0, len(keys)),
            {name: count for name, count in counted.items() if name in self.wanted},
        )


def _who_met(moment: Moment) -> set[int]:
    lanes = range(len(moment.stack))
    return {lane for meeting in moment.meetings for lane in lanes[meeting.lanes]}


def _sampled(moment: Moment) -> dict[str, Tensor]:
    """Whom the server met, in the lanes that it met."""
    nobody = moment.state.X_nld.new_full((len(moment.stack),), torch.nan)
    found = {name: nobody.clone() for name in SAMPLED}
    for meeting in moment.meetings:
        counts_c = _of_each_island(moment.stack, meeting)
        told = (meeting.sampled, meeting.islands, counts_c.min(), counts_c.max())
        for name, count in zip(SAMPLED, told, strict=True):
            found[name][meeting.lanes] = int(count)
    return found


def _of_each_island(stack: Stack, meeting: Meeting) -> NDArray[np.int64]:
    """How many devices were sampled of each island."""
    world = stack.world
    assert meeting.devices_k is not None
    islands_k = world.fleet.component_of[meeting.devices_k.cpu().numpy()]
    return np.bincount(islands_k, minlength=len(world.sizes))


def _consensus(now: Spread) -> dict[str, Tensor]:
    return {
        "disagreement": now.total_l,
        "disagreement_intra": now.intra_l,
        "disagreement_inter": now.inter_l,
    }


def _changes(before: Spread, after: Spread) -> dict[str, Tensor]:
    """What the server did. Devices that agreed before have no ratio: 0/0 is NaN, and left out."""
    moved = bias(before, after)
    return {
        **{f"{name}_before": value for name, value in _consensus(before).items()},
        "bias": moved,
        "disagreement_ratio": after.total_l / before.total_l,
        "bias_ratio": moved / before.total_l,
    }


def _among_those_who_met(moment: Moment, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """NaN for the lanes that did not meet the server in this round."""
    met = _who_met(moment)
    if len(met) == len(moment.stack):
        return values
    away = torch.tensor([lane not in met for lane in range(len(moment.stack))])
    away = away.to(moment.state.X_nld.device)
    return {name: value.masked_fill(away, torch.nan) for name, value in values.items()}
