"""Stacks: runs of one world as lanes of one array, in groups with the same network and server."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.experiment import Experiment, Server
from skerry.engine import compressed_messages as messages
from skerry.engine import plugin_results as contract
from skerry.engine.facts import run_context
from skerry.engine.local_optimizers import LOCAL_OPTIMIZER, LocalOptimizer
from skerry.engine.mixer import Mixer
from skerry.engine.participation.awake import Awake
from skerry.engine.participation.sampler import Sampler
from skerry.engine.server import Memory
from skerry.engine.server_schedule import LOG, REFERENCE, ScheduledRound, ServerSchedule
from skerry.engine.timing import CLOCK, StackClock, build_clocks
from skerry.engine.unpadded import UnpaddedMethod, plugin_call
from skerry.engine.world import World
from skerry.errors import SkerryError, as_number
from skerry.kernels.precision import arithmetic
from skerry.methods.method import Method, overrides
from skerry.models.layout import Padding
from skerry.plugins import registry
from skerry.plugins.calls import guard_methods
from skerry.plugins.context import Context
from skerry.plugins.options import has_context

CPU_WORKING_SET = 2 * 2**20  # a step's temporaries should stay in the cache
GPU_WORKING_SHARE = 0.25  # of the free memory
GPU_LEAST, GPU_PART = 2**26, 3  # with methods: bytes, or X divided by this
GPU_FIXED_SHARE = 0.02  # of all memory, where the order of sums must not depend on what is free


Primitive = Callable[..., int]
PRIMITIVE, OPTIMIZER = "primitive", "server optimizer"


@dataclass(frozen=True)
class MixingGroup:
    """Neighbouring lanes with the same network."""

    lanes: slice
    mixer: Mixer
    steps: int = 1
    """Mixings in a round."""
    adapts_first: bool = True
    """W (X - eta G(X)), or else W X - eta G(X)."""
    awake: Awake | None = None
    """None: no device ever sleeps."""
    scale_n: Tensor | None = None
    """The factor on each device's stepsize, where devices count by their data."""
    rounds_without_mixing: frozenset[int] = frozenset()
    method: Method | None = None
    """None: plain SGD."""
    compression: messages.LinkCompression | None = None
    """None: links carry whole models."""

    @property
    def mixed_arrays(self) -> int:
        """The number of arrays that are mixed over links."""
        return 1 if self.method is None else self.method.mixed_arrays

    def steps_in(self, t: int) -> int:
        """Mixings in round t."""
        return 0 if t in self.rounds_without_mixing else self.steps

    @property
    def needs_models_before(self) -> bool:
        """Whether a round needs the models as they were before its local steps."""
        return not self.adapts_first or self.awake is not None or self.scale_n is not None


@dataclass(frozen=True)
class ServerGroup:
    """Neighbouring lanes with the same server. Its functions are called `(*arrays, context)`, with
    their options bound.

    A lane whose schedule adapts to the models is a group of its own.
    """

    lanes: slice
    server: Server
    primitive: Primitive
    start: Callable[..., Memory]
    deliver: Callable[..., Tensor]
    sampler: Sampler
    schedule: ServerSchedule
    reaches_asleep: bool = False
    method: Method | None = None
    """None: plain SGD."""
    compression: messages.ServerCompression | None = None
    """None: messages are whole models."""
    takes_context: bool = False
    """Whether any of its functions reads a context."""
    context: Context | None = None
    """The context of its server round, in a group of `at`, for functions that read one."""
    padding: Padding | None = None
    """The padding that a user's own functions do not see."""

    @property
    def is_plain_s2s(self) -> bool:
        """Whether the server only applies S2S to the plain mean, without any memory."""
        plain = self.server.dial == 0 and self.server.optimizer == "fedavg"
        return plain and self.compression is None and not self.sampler.needs_distances

    def at(self, scheduled: ScheduledRound, t: int) -> "ServerGroup":
        """The group with the beta and K of a server round in round t."""
        server, context = scheduled.server, None
        if self.takes_context:
            context = self.sampler.context(t, scheduled)
        if server is self.server:
            return self if context is None else replace(self, context=context)
        primitive = _bind_primitive(server, self.padding)
        return replace(self, server=server, primitive=primitive, context=context)


@dataclass(frozen=True)
class Stack:
    """Experiments of one world, ordered so that lanes that act together are neighbours."""

    world: World
    experiments: tuple[Experiment, ...]
    keys: tuple[str, ...]
    mixing: tuple[MixingGroup, ...]
    servers: tuple[ServerGroup, ...]
    etas_tl: Tensor
    """The stepsize of every lane in every round, [T, L]."""
    clocks: tuple[StackClock, ...] = ()
    """The clocks that measure the time of lanes; none: no lane has one."""

    def __len__(self) -> int:
        return len(self.experiments)

    @cached_property
    def never_needs_models_before(self) -> bool:
        """Whether no lane needs the models from before the local steps of a round."""
        return not any(group.needs_models_before for group in self.mixing)

    @cached_property
    def has_methods(self) -> bool:
        """Whether any lane has a method other than plain SGD."""
        return any(group.method is not None for group in self.mixing)

    def clock_of(self, lanes: slice) -> StackClock | None:
        """The clock of lanes of one server group; None if they have none."""
        return next((clock for clock in self.clocks if clock.measures(lanes)), None)

    def stride(self, eta_l: Tensor) -> Tensor:
        """The factor on gradients in a step [L]: eta, or 1 where a method needs raw gradients."""
        mask_l = self._raw_gradient_l
        return eta_l if mask_l is None else eta_l.masked_fill(mask_l, 1.0)

    @cached_property
    def _raw_gradient_l(self) -> Tensor | None:
        """Mask of the lanes whose method needs the raw gradient, or None."""
        needing = [one.lanes for one in self.mixing if one.method and one.method.needs_gradient]
        mask_l = torch.zeros(len(self), dtype=torch.bool, device=self.world.device)
        for lanes in needing:
            mask_l[lanes] = True
        return mask_l if needing else None

    def chunk(self) -> int:
        """The number of devices that step at once: as many as the working memory holds."""
        n, device = self.world.local_devices, self.world.device
        each, room = step_bytes(self.world, len(self)), working_memory(device)
        if not self.has_methods and self.world.local_epochs is None:
            return max(1, min(n, room // max(1, each)))
        models = len(self) * self.world.learner.d * self.world.dtype.itemsize
        if device.type == "cuda":  # small compared with the arrays of methods
            room = min(room, max(GPU_LEAST, n * models // GPU_PART))
        # One of the methods may keep the models that a step starts from; with local epochs, rows of
        # X are copied.
        return max(1, min(n, room // (each + models)))


def step_bytes(world: World, lanes: int) -> int:
    """Temporary memory of a local step in bytes, per device."""
    with arithmetic(world.experiment.training.precision):
        return world.learner.bytes_per_device(lanes, world.batch)


def working_memory(device: torch.device) -> int:
    """The bytes that the temporaries of a step may take."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        if torch.are_deterministic_algorithms_enabled():  # whatever else is in memory
            return int(total * GPU_FIXED_SHARE)
        return int(free * GPU_WORKING_SHARE)
    return CPU_WORKING_SET


def build_stack(world: World, experiments: Sequence[Experiment]) -> Stack:
    """A stack of experiments that share a world, ordered so that groups are neighbours."""
    shared = world.experiment.world_key(world.fingerprints)
    for experiment in experiments:
        if experiment.world_key(world.fingerprints) != shared:
            raise SkerryError(
                "lanes of one stack must share their data, model, batches, rounds and seed. "
                "Run these experiments as separate stacks."
            )
        server = experiment.server
        rules = (*server.island_faults(world.sizes), *server.call_faults(world.n))
        if faults := [line for _, line in rules]:
            raise SkerryError(*faults)
        for field in ("sampled", "sampled_end") if server.is_there else ():
            sampled = getattr(server, field)
            if sampled is not None and sampled > world.n:  # with a graph file, n is known only here
                raise SkerryError(
                    f"server.{field} must be between 1 and the number of devices (got {sampled} "
                    f"of {world.n} devices). Lower server.{field}."
                )
        if world.starts is not None:
            _check_different_starts(experiment)
    keyed = sorted(((group_keys(e), e) for e in experiments), key=itemgetter(0))
    keys, ordered = [key for key, _ in keyed], [e for _, e in keyed]
    # A lane whose schedule adapts to the models has a server group of its own, and if its context
    # is read in local steps, a mixing group too.
    adapting = [object() if e.server.is_there and e.server.is_adaptive() else None for e in ordered]
    alone = [
        one if _steps_know_server(e) else None for one, e in zip(adapting, ordered, strict=True)
    ]
    stack = Stack(
        world=world,
        experiments=tuple(ordered),
        keys=tuple(world.key(e) for e in ordered),
        mixing=tuple(
            _mixing_group(lanes, world, ordered[lanes.start])
            for lanes in _runs(zip((mixing for mixing, _ in keys), alone, strict=True))
        ),
        servers=tuple(
            _server_group(lanes, world, ordered[lanes.start])
            for lanes in _runs(zip(keys, adapting, strict=True))
        ),
        etas_tl=torch.from_numpy(_stepsizes(world, ordered)).to(world.device, world.dtype),
    )
    return replace(stack, clocks=build_clocks(stack))


def _check_different_starts(experiment: Experiment) -> None:
    """Raise a SkerryError for what needs devices that start at the same point."""
    method, network, server = method_of(experiment), experiment.network, experiment.server
    needs = None
    if method is not None and not method.takes_different_starts:
        needs = f"method '{experiment.method.name}'"
    elif network.compresses or (server.compresses and server.is_there):
        needs = "compression"  # both sides of a message hold a copy from the start on
    if needs:
        raise SkerryError(
            f"{needs} needs devices that start at the same point (got weights by device). Give all "
            "the same weights, or change the experiment."
        )


def group_keys(experiment: Experiment) -> tuple[str, str]:
    """The keys of a lane's mixing group and server group.

    Lanes with the same network, sleep and method mix together, unless the server decides when to
    mix or may decide what a user's own method does; lanes with the same server and clock too have
    their server rounds together.
    """
    network, training = experiment.network, experiment.training
    server = experiment.server.model_dump_json(exclude={"name"})
    mixing = (
        network.model_dump_json(),
        experiment.availability.model_dump_json(),
        training.order,
        training.weights,
        experiment.method.model_dump_json(),
        f"{training.optimizer} {training.weight_decay} {training.options_for(LOCAL_OPTIMIZER)}",
        "" if network.mix_with_server and not _steps_know_server(experiment) else server,
    )
    return "\n".join(mixing), f"{server}{experiment.clock.file}"


def _steps_know_server(experiment: Experiment) -> bool:
    """Whether a user's own function may read K, H and the server rounds in local steps."""
    return ":" in experiment.method.name or ":" in experiment.training.optimizer


def _check_private(world: World, method: Method | None, first: Experiment) -> None:
    """Refuse a user's own method that does not know of private parts."""
    if not world.private or method is None or method.allows_private:
        return
    if overrides(method, "mix", "aggregate"):
        raise SkerryError(
            f"method '{first.method.name}' must say how it treats private parts (got model.private "
            f"= {list(first.model.private)}). Set its attribute allows_private = True if it mixes "
            "and averages only what travels, or leave model.private out."
        )


def _mixing_group(lanes: slice, world: World, first: Experiment) -> MixingGroup:
    method = method_of(first, world.padding)
    _check_private(world, method, first)
    unmixed = () if first.network.mix_with_server else first.server.server_rounds(first.rounds)
    return MixingGroup(
        lanes,
        Mixer(world.fleet_of(first), world.device, world.dtype, world.ranks),
        steps=first.network.gossip_steps,
        adapts_first=first.training.order == "adapt_then_mix",
        awake=world.awake(first),
        scale_n=data_scale(world) if first.training.weights == "data" else None,
        rounds_without_mixing=frozenset(unmixed),
        method=method,
        compression=messages.link_compression(first),
    )


def method_of(experiment: Experiment, padding: Padding | None = None) -> Method | None:
    """The method of an experiment; None for plain SGD. A user's own does not see the padding."""
    method, training = experiment.method, experiment.training
    if method.is_plain:
        return None if training.is_plain else LocalOptimizer(training, padding)
    made = registry.build("method", method.name, method.options_for("method"), Method)
    made = guard_methods("method", method.name, made, contract.METHOD_RULES)
    return made if padding is None or ":" not in method.name else UnpaddedMethod(made, padding)


def data_scale(world: World) -> Tensor:
    """The factor n p_i on the stepsize of each device, with p_i its part of all samples."""
    sizes = world.partition.sizes
    scale_n = torch.from_numpy(len(sizes) * sizes / sizes.sum())[world.ranks.devices]
    return scale_n.to(world.device, world.dtype)


def _server_group(lanes: slice, world: World, first: Experiment) -> ServerGroup:
    server = first.server
    optimizer = registry.resolve(OPTIMIZER, server.optimizer)
    context = run_context(world, first, 0, number=0, period=server.period)
    named, padding, options = (OPTIMIZER, server.optimizer), world.padding, server.options_for
    start = plugin_call(
        *named, optimizer.start, padding, None, contract.memory_fault, contract.lent_at_start
    )
    deliver = plugin_call(
        *named, optimizer.deliver, padding, options(OPTIMIZER), contract.delivery_fault
    )
    if not registry.is_builtin(OPTIMIZER, server.optimizer):
        kept = start(world.initial()[None], context=context)
        deliver = _with_own_memory(deliver, server.optimizer, tuple(kept))
    called = registry.resolve(PRIMITIVE, server.primitive), optimizer.deliver
    compression = messages.server_compression(first)
    return ServerGroup(
        lanes,
        server,
        _bind_primitive(server, padding),
        partial(start, context=context),
        deliver,
        Sampler(world, first),
        ServerSchedule(world, first),
        first.availability.reach_asleep,
        method_of(first, padding),
        compression,
        takes_context=compression is not None or any(map(has_context, called)),
        padding=padding,
    )


def _with_own_memory(deliver: Callable[..., Tensor], name: str, kept: tuple[str, ...]) -> Any:
    """A `deliver` that gets the arrays of its own `start` only: neither those of other lanes'
    optimizers nor those of the server itself."""
    if taken := [one for one in kept if one in (LOG, REFERENCE, CLOCK)]:
        raise SkerryError(
            f"{OPTIMIZER} '{name}' must not call an array {taken[0]!r}, as one of the server's own "
            "is called. Rename it."
        )

    def call(memory: Memory, average_ld: Tensor, **context: Any) -> Tensor:
        return deliver({one: memory[one] for one in kept}, average_ld, **context)

    return call


def _bind_primitive(server: Server, padding: Padding | None) -> Primitive:
    primitive = registry.resolve(PRIMITIVE, server.primitive)
    named, options = (PRIMITIVE, server.primitive), server.options_for(PRIMITIVE)
    checks = contract.receivers_fault, contract.lent_to_primitive
    return plugin_call(*named, primitive, padding, options, *checks)


def _stepsizes(world: World, experiments: Sequence[Experiment]) -> NDArray[np.float64]:
    """The stepsizes of every lane in every round, [T, L], computed once for equal schedules."""

    def key_of(experiment: Experiment) -> Hashable:
        training = experiment.training
        if registry.is_builtin("schedule", training.schedule):
            return training.schedule, *training.options_for("schedule").items()
        return training, experiment.server, experiment.network, experiment.availability

    keys = [*map(key_of, experiments)]
    factors = {
        key: [*map(schedule_of(world, one), range(world.rounds))]
        for key, one in dict(zip(keys, experiments, strict=True)).items()
    }
    both = zip(keys, experiments, strict=True)
    etas = [[one.training.stepsize * factor for factor in factors[key]] for key, one in both]
    return np.array(etas).reshape(len(keys), world.rounds).T


def schedule_of(world: World, experiment: Experiment) -> Callable[[int], float]:
    """The factor on the stepsize as a function of the round."""
    training, server = experiment.training, experiment.server
    schedule = registry.resolve("schedule", training.schedule)
    options = training.options_for("schedule")
    call = plugin_call("schedule", training.schedule, schedule, options=options)
    own = not registry.is_builtin("schedule", training.schedule)
    is_planned = own and server.is_there and not server.is_adaptive("period")
    server_rounds = server.server_rounds(world.rounds) if is_planned else ()

    def factor(t: int) -> float:
        if not own:  # built-in ones are called for every round of a long run
            return float(call(context=Context(round=t, rounds=world.rounds)))
        facts: dict[str, Any] = {}
        if is_planned:
            facts["number"] = bisect_left(server_rounds, t)
            facts["period"] = server.period_in(t, world.rounds)
        found = call(context=run_context(world, experiment, t, **facts))
        rule = f"schedule '{training.schedule}' must give the factor on the stepsize, a number"
        return as_number(found, f"{rule} of at least 0", least=0, when=f" in round {t}")

    return factor


def _runs(labels: Iterable[Hashable]) -> list[slice]:
    """The slices of maximal runs of equal neighbours."""
    ends = list(accumulate(len(list(run)) for _, run in groupby(labels)))
    return [slice(start, end) for start, end in pairwise([0, *ends])]
