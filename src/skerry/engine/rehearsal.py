"""Rehearsal: a round with a user's own plug-ins, several times, before anything is recorded.

It is a round of the engine, on models that differ, with all devices unless the fleet is large. It
is computed with one lane and with two, again from the same start, and with the devices in two
chunks. A plug-in whose result depends on other lanes, on the chunks or on earlier calls is refused
in one line, and so is one that breaks another rule of its kind. Built-ins are not tried; tests
check them.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.config.fields import ClockChoice, Network, Server
from skerry.engine.compressed_messages import build_compression, message_draws
from skerry.engine.compression import compress
from skerry.engine.facts import run_context
from skerry.engine.minibatches import draw_round
from skerry.engine.participation.awake import Awake, Mask
from skerry.engine.plugin_results import changed_rows, check_messages
from skerry.engine.ranks.group import RankGroup
from skerry.engine.round import initial_state, local_steps, run_server_rounds, train
from skerry.engine.stack import ServerGroup, Stack, build_stack, schedule_of
from skerry.engine.state import State, keep_lanes
from skerry.engine.world import World
from skerry.errors import SkerryError, warn_once
from skerry.methods.method import Traffic
from skerry.network.islands import draw_island, weigh
from skerry.plugins import registry
from skerry.plugins.calls import AGAIN, Call, recording
from skerry.seeds import stream

IN_A_ROUND = {
    "training.optimizer": "local optimizer",
    "method.name": "method",
    "network.compression": "compression",
    "server.selection": "selection",
    "server.optimizer": "server optimizer",
    "server.primitive": "primitive",
    "server.compression": "compression",
}
"""The fields that name plug-ins of a round, in the order of their calls, and their kinds."""
MOST_DEVICES = 1000
MOST_ROUNDS = 20
MOST_NUMBERS = 2**22
"""Numbers of X in a rehearsal; a larger fleet is rehearsed with its first devices."""
SPREADS = (0.05, 1.5, 0.05)
"""How far the models of a number lie apart: lanes differ in scale, so that none hides a leak."""
ROUNDING, ROUGHLY = 1e-4, 0.02
"""How much results may differ, as a part of what the round changed: with the same arithmetic, and
with products of other shapes, where the sign of a small number may differ."""
LANES = (
    "computes a lane from its neighbour: lanes must not see each other. Work along the dimensions "
    "of devices and parameters, not along that of lanes."
)
CHUNKS = (
    "computes a device from others that step at the same time: a local step must depend on the "
    "device alone. Draw for all devices, and take those of context.rows."
)


def rehearse(world: World, experiments: Sequence[Experiment]) -> None:
    """Raise SkerryError if a user's own plug-in of these experiments breaks its contract."""
    for experiment in experiments:
        if not registry.is_builtin("schedule", experiment.training.schedule):
            factor = schedule_of(world, experiment)
            with recording():  # the first rounds: the stack calls it in all
                for t in range(min(experiment.rounds, MOST_ROUNDS)):
                    factor(t)
    stack = build_stack(world, experiments)
    if world.local_epochs is None and not torch.equal(
        world.batch_indices(0, 0), world.batch_indices(0, 0)
    ):
        raise _differs("sampling", world.experiment.training.sampling)
    _try_network(stack)
    for group in stack.servers:
        _try_sampling(group, world)
    tried: set[Hashable] = set()
    for experiment in stack.experiments:
        own = {path: name for path, name in experiment.users_own() if path in IN_A_ROUND}
        parts = (experiment.method, experiment.network.compression, experiment.server.primitive)
        options = tuple(sorted(map(str, experiment.server.options.items())))
        key = (tuple(own.items()), *parts, experiment.server.compression, options)
        if own and key not in tried:
            tried.add(key)
            _Rehearsal(*small(world, _without_clock(experiment)), own).check()


def _without_clock(experiment: Experiment) -> Experiment:
    """The experiment without its clock and deadlines: everyone who is called counts."""
    changes = {"deadline": None, "at_least": 1, "over_sample": 0}
    server = experiment.server.model_copy(update=changes)
    return experiment.model_copy(update={"server": server, "clock": ClockChoice()})


# A round

Pair = tuple[int, int]


@dataclass(frozen=True)
class _Played:
    """The models at the start, the state after training and after the server, and all calls."""

    start_nld: Tensor
    states: list[State]
    calls: list[Call]


@dataclass(frozen=True)
class _Rehearsal:
    """The rehearsal of the plug-ins of one experiment."""

    world: World
    experiment: Experiment
    own: dict[str, str]
    """The plug-ins by the fields that name them."""

    def check(self) -> None:
        for section in (self.experiment.network, self.experiment.server):
            if ":" in section.compression and section.compression in self.own.values():
                self._try_compression(section)
        two, one = (build_stack(self.world, [self.experiment] * lanes) for lanes in (2, 1))
        alone = self._play(one, (0,))
        self._check_calls(alone.calls)
        if "training.optimizer" in self.own:
            _warn_of_unused(self.own["training.optimizer"], alone.states[-1])
        self._compare(alone, self._play(one, (0,)), ROUNDING, AGAIN)
        played = self._play(two, (0, 1))
        self._compare(alone, played, ROUGHLY, LANES)
        self._compare(self._play(one, (1,)), played, ROUGHLY, LANES, (0, 1))
        self._compare(played, self._play(two, (0, 2)), ROUNDING, LANES)
        self._compare(played, self._play(two, (2, 1)), ROUNDING, LANES, (1, 1))
        if "method.name" in self.own or "training.optimizer" in self.own:
            self._try_steps(one, two)

    def _try_steps(self, one: Stack, two: Stack) -> None:
        """Local steps alone, beside which mixing would hide a fault."""
        alone, other = (self._play(one, (number,), steps_only=True) for number in range(2))
        half = -(-self.world.local_devices // 2)
        halves = self._play(one, (0,), steps_only=True, chunk=half)
        self._compare(alone, halves, ROUGHLY, CHUNKS)
        played = self._play(two, (0, 1), steps_only=True)
        self._compare(alone, played, ROUGHLY, LANES)
        self._compare(other, played, ROUGHLY, LANES, (0, 1))

    def _play(
        self, stack: Stack, models: Sequence[int], steps_only: bool = False, chunk: int = 0
    ) -> _Played:
        """The first round with a server round, from models with these numbers, one for a lane."""
        world = stack.world
        planned = self.experiment.server.server_rounds(world.rounds)
        with recording() as calls:
            state = scattered_state(stack, models)
            state.t, state.chunk = (planned[0] if planned else 0), chunk or world.local_devices
            start_nld, draws = state.X_nld.clone(), draw_round(stack, state.t)
            if steps_only:
                local_steps(stack, state, draws)
                return _Played(start_nld, [state], calls)
            train(stack, state, draws)
            trained = keep_lanes(state, list(range(len(models))))
            run_server_rounds(stack, state)
        return _Played(start_nld, [trained, state], calls)

    def _check_calls(self, calls: Iterable[Call]) -> None:
        for call in calls:
            finite = all(tensor.isfinite().all() for tensor in call.given)
            if finite and not all(tensor.isfinite().all() for tensor in call.left):
                raise SkerryError(
                    f"{call.kind} '{call.name}' makes numbers that are not finite (NaN or inf) of "
                    "finite ones. Look for a division by zero or a logarithm."
                )
            sent = call.result.down if isinstance(call.result, Traffic) else call.result
            if call.kind == "primitive" or isinstance(call.result, Traffic):
                _check_messages(call, int(sent))

    def _compare(
        self, a: _Played, b: _Played, tolerance: float, fault: str, lanes: Pair = (0, 0)
    ) -> None:
        """Raise SkerryError if a lane of `a` and one of `b` differ, and name the plug-in that it is
        due to."""
        start_nld = _lane(a.start_nld, lanes[0])
        for before, after in zip(a.states, b.states, strict=True):
            found = _arrays(after, lanes[1])
            for name, array in _arrays(before, lanes[0]).items():
                moved = array - start_nld if name == "X" else array
                if not _is_close(array, found[name], moved, tolerance):
                    kind, own = self._cause(a.calls, b.calls, tolerance, lanes)
                    raise SkerryError(f"{kind} '{own}' {fault}")

    def _cause(
        self, a: list[Call], b: list[Call], tolerance: float, lanes: Pair
    ) -> tuple[str, str]:
        """The kind and name of the plug-in whose results differ although its arguments do not."""

        def are_close(some: list[Tensor], others: list[Tensor]) -> bool:
            pairs = zip(some, others, strict=False)
            both = [(_lane(x, lanes[0]), _lane(y, lanes[1])) for x, y in pairs]
            return all(_is_close(x, y, x, tolerance) for x, y in both)

        for one, other in zip(a, b, strict=False):
            if (one.kind, one.name) != (other.kind, other.name):
                break
            if are_close(one.given, other.given) and not are_close(one.left, other.left):
                return one.kind, one.name
        field = next(field for field in IN_A_ROUND if field in self.own)
        return IN_A_ROUND[field], self.own[field]

    def _try_compression(self, section: Network | Server) -> None:
        """Compress messages of two lanes, some of them zero; parts of them must give the same."""
        world, name, compression = self.world, section.compression, build_compression(section)
        V_rld = torch.randn((3, 2, world.learner.d), generator=torch.Generator().manual_seed(0))
        V_rld *= torch.tensor([[0.0, 0.0], [1.0, 30.0], [5.0, 90.0]])[..., None]
        V_rld = V_rld.to(world.device, world.dtype) * world.shared_d
        keys_r = world.compression_keys("rehearsed", 0)[:1].repeat(3)
        context = run_context(world, self.experiment, 0, number=0, period=1)

        def compressed(rows: slice, lanes: slice) -> Tensor:
            draws, devices_r = message_draws(world, keys_r[rows]), torch.arange(world.n)[:3][rows]
            message_rld = V_rld[rows, lanes].clone()
            return compress(compression, message_rld, draws, context, devices_r)

        with recording():
            compression.bytes(world.shared_parameters)
            whole = compressed(slice(3), slice(2))
            lanes = [compressed(slice(3), slice(lane, lane + 1)) for lane in range(2)]
            row = compressed(slice(1, 2), slice(2))
        if not torch.isfinite(whole).all() or whole[0].any():
            raise SkerryError(
                f"compression '{name}': compress must leave finite numbers, and zeros of zeros."
            )
        if not all(_is_close(x, _lane(whole, i), x, ROUGHLY) for i, x in enumerate(lanes)):
            raise SkerryError(f"compression '{name}' {LANES}")
        if not _is_close(row, whole[1:2], row, ROUGHLY):
            raise SkerryError(
                f"compression '{name}' computes a message from others: rows must not see each "
                "other. Take sums along the parameters, the last dimension, only."
            )


def scattered_state(stack: Stack, models: Sequence[int]) -> State:
    """The initial state with models that differ: in every lane those with one of these numbers."""
    state = initial_state(stack)
    for lane, number in enumerate(models):
        X_nd = state.X_nld[:, lane]
        noise_nd = torch.randn(X_nd.shape, generator=torch.Generator().manual_seed(number))
        X_nd += SPREADS[number] * noise_nd.to(X_nd) * stack.world.real_d
    return state


def _arrays(state: State, lane: int) -> dict[str, Tensor]:
    """The arrays of one lane."""
    kept = keep_lanes(state, [lane])
    own = {f"own {key}": array for key, array in kept.companions.arrays.items()}
    return {"X": kept.X_nld, **kept.memory, **own}


def _warn_of_unused(optimizer: str, state: State) -> None:
    """Warn of arrays of a local optimizer that are still zero."""
    for key, array in state.companions.arrays.items():
        owner, _, name = key.rpartition(".")
        if owner == optimizer and not array.any():
            warn_once(
                f"local optimizer '{optimizer}': state '{name}' never changes: change it in place, "
                f"as in state['{name}'].mul_(0.9).add_(gradient), or take it out of keeps."
            )


def _lane(tensor: Tensor, lane: int) -> Tensor:
    """A lane of a tensor [..., lanes, numbers]; of one that all lanes share, all."""
    lane = min(lane, tensor.shape[-2] - 1) if tensor.ndim >= 2 else 0
    return tensor[..., lane : lane + 1, :] if tensor.ndim >= 2 else tensor


def _is_close(a: Tensor, b: Tensor, moved: Tensor, tolerance: float) -> bool:
    """Whether two results are equal but for rounding, compared with what has moved."""
    if a.shape != b.shape:
        return False
    a, b, moved = (torch.nan_to_num(one.double()) for one in (a, b, moved))
    return bool((a - b).norm() <= tolerance * moved.norm() + 1e-6 * a.norm())


def _check_messages(call: Call, sent: int) -> None:
    """Refuse a plug-in that changes more devices than it reports messages for."""
    models = next(i for i, tensor in enumerate(call.given) if tensor.ndim == 3)
    before, after = call.given[models], call.left[models]
    changed_n = changed_rows(before, after)
    if call.kind == "primitive" and not changed_n.any() and len(before) > 1:
        warn_once(
            f"primitive '{call.name}' leaves all models as they are: the server does nothing. "
            "Write into X_nld itself, as in X_nld[sampled_k] = delivered_ld, not into a copy."
        )
    check_messages(call.kind, call.name, sent, changed_n)


# A smaller fleet


def small(world: World, experiment: Experiment) -> tuple[World, Experiment]:
    """The world and the experiment; of a large fleet, and of that of several ranks, a part.

    Then the fleet is that of the first devices and the links between them, and the server samples
    uniformly among them.
    """
    most = max(2, min(MOST_DEVICES, MOST_NUMBERS // world.learner.d))
    local = range(world.n)[world.ranks.devices]
    rows = slice(local.start, min(local.stop, local.start + most))
    if rows == slice(0, world.n):
        return world, experiment
    fleet, awake = world.fleet_of(experiment).part(rows), world.awake(experiment)
    offsets = world.partition.offsets[rows.start : rows.stop + 1]
    order = world.partition.order[offsets[0] : offsets[-1]]
    if world.ranks.count > 1:  # it holds the samples of its devices only
        order = np.arange(len(order))
    partition = replace(
        world.partition,
        order=order,
        offsets=offsets - offsets[0],
        label_counts=world.partition.label_counts[rows],
        own_tests=None,
    )
    server = experiment.server
    changes = {"sampled": min(server.sampled, fleet.devices), "sampled_schedule": "constant"}
    changes |= {"selection": "uniform", "weights": "equal"}
    experiment = experiment.model_copy(update={"server": server.model_copy(update=changes)})
    asleep = {**world._awake}  # where nobody ever sleeps, the whole fleet says so
    if awake is not None:
        asleep[experiment.availability] = _Part(awake, rows)
    part = replace(
        world,
        fleet=fleet,
        partition=partition,
        ranks=RankGroup(),
        starts=None,
        step_groups={},
        _awake=asleep,
        _fleets={(experiment.network, experiment.availability): fleet},
    )
    return part, experiment


class _Part(Awake):
    """The awake ones of consecutive devices."""

    always = False

    def __init__(self, awake: Awake, rows: slice):
        self._all, self._rows = awake, rows

    def __call__(self, t: int) -> Mask:
        return self._all(t)[self._rows]


# Network, schedules and samples


def _try_network(stack: Stack) -> None:
    """Call a user's own topology and weights of W twice for an island."""
    for mixing in stack.mixing:
        fleet = mixing.mixer.fleet
        network, context = fleet.network, fleet.context(0, 0 if fleet.given is None else None)
        is_drawn = stack.world.materials.graph is None and not network.is_file
        if is_drawn and ":" in network.topology:
            rngs = [stream(fleet.seed, "graph", 0) for _ in range(2)]
            drawn = [draw_island(fleet.sizes[0], network, rng, context) for rng in rngs]
            if not np.array_equal(drawn[0].edges, drawn[1].edges):
                raise _differs("topology", network.topology)
        if ":" in network.mixing:
            fleet.blocks(0)
            up = ((links, c, t) for t in range(3) for c, links in enumerate(fleet.islands(t)))
            links, c, t = max(up, key=lambda found: len(found[0].edges))
            contexts = [fleet.weights_context(c, t) for _ in range(2)]
            first, again = (weigh(links, network, context) for context in contexts)
            if abs(first - again).max() > 0:
                raise _differs("mixing", network.mixing)


def _differs(kind: str, name: str, t: int = 0) -> SkerryError:
    return SkerryError(
        f"{kind} '{name}' gives different results for the same round (round {t}): it must keep "
        "nothing from earlier calls, and use context.random()."
    )


def _try_sampling(group: ServerGroup, world: World) -> None:
    """Call the schedules in every server round, and draw a sample of each size."""
    server, sizes, planned = group.server, set(), group.server.server_rounds(world.rounds)
    for t in planned if server.has_schedule("beta", "sampled") else planned[:1]:
        sampled = server.at(t, world.rounds).sampled
        if sampled > world.n and ":" in server.sampled_schedule:
            raise SkerryError(
                f"sampled schedule '{server.sampled_schedule}' must give server.sampled, at "
                f"most the {world.n} devices there are (got {sampled} in round {t})."
            )
        if sampled in sizes:
            continue
        sizes.add(sampled)
        with recording():
            group.sampler.sample(t, np.ones(world.n))
