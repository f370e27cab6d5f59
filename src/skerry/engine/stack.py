"""Lanes side by side: which of them mix and meet the server together, and how much fits at once."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.experiment import Experiment, Server
from skerry.engine.compressed import LinkRule, ServerRule, link_rule, server_rule
from skerry.engine.local_optimizers import KIND as LOCAL
from skerry.engine.local_optimizers import LocalOptimizer
from skerry.engine.mixer import Mixer
from skerry.engine.participation.awake import Awake
from skerry.engine.participation.sampler import Sampler
from skerry.engine.server import Memory
from skerry.engine.server_schedule import Course, Turn
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.kernels.precision import arithmetic
from skerry.methods.method import Method
from skerry.plugins import registry
from skerry.plugins.options import CONTEXT, takes_context

CPU_WORKING_SET = 2 * 2**20  # a step's temporaries should stay in the cache
GPU_WORKING_SHARE = 0.25  # of the free memory
GPU_LEAST, GPU_PART = 2**26, 3  # bytes, or this part of X, where methods keep arrays
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
    """None: everybody."""
    scale_n: Tensor | None = None
    """The factor on each device's stepsize, where devices count by their data."""
    rests: frozenset[int] = frozenset()
    """Rounds without mixing."""
    method: Method | None = None
    """None: plain SGD."""
    compression: LinkRule | None = None
    """None: models go over links as they are."""

    @property
    def travels(self) -> int:
        """Arrays that go over every link in a mixing."""
        return 1 if self.method is None else self.method.travels

    def steps_in(self, t: int) -> int:
        """Mixings in round t."""
        return 0 if t in self.rests else self.steps

    @property
    def looks_back(self) -> bool:
        """Whether a round needs the models as they were before its local steps."""
        return not self.adapts_first or self.awake is not None or self.scale_n is not None


@dataclass(frozen=True)
class ServerGroup:
    """Neighbouring lanes with the same server; its functions have been told their options. One lane
    alone, where a schedule goes by the models."""

    lanes: slice
    server: Server
    primitive: Primitive
    start: Callable[[Tensor], Memory]
    deliver: Callable[[Memory, Tensor, Server], Tensor]
    sampler: Sampler
    course: Course
    reaches_asleep: bool = False
    method: Method | None = None
    """None: plain SGD."""
    compression: ServerRule | None = None
    """None: models go to it and from it as they are."""
    asking: tuple[str, ...] = ()
    """The kinds of its functions that are told where a run stands."""

    @property
    def only_shares(self) -> bool:
        """Whether S2S is all there is: the sampled take their mean, and nothing is remembered."""
        plain = self.server.dial == 0 and self.server.optimizer == "fedavg"
        return plain and self.compression is None and not self.sampler.asks_distances

    def standing(self, turn: Turn, t: int) -> "ServerGroup":
        """With that server round's beta and K, in round t."""
        now = self
        if turn.server is not self.server:
            now = replace(self, server=turn.server, primitive=_told_primitive(turn.server))
        if not self.asking:
            return now
        told = {
            kind: {CONTEXT: self.sampler.standing(t, turn, now.server.options_for(kind))}
            for kind in self.asking
        }
        return replace(
            now,
            primitive=partial(now.primitive, **told.get(PRIMITIVE, {})),
            deliver=partial(now.deliver, **told.get(OPTIMIZER, {})),
        )


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

    def __len__(self) -> int:
        return len(self.experiments)

    @cached_property
    def is_steady(self) -> bool:
        """Whether a round is local steps and then mixing, with all devices: nothing is looked back
        at or put back. Methods may have their say in both."""
        return not any(group.looks_back for group in self.mixing)

    @cached_property
    def has_methods(self) -> bool:
        """Whether any lane has a method beside plain SGD."""
        return any(group.method is not None for group in self.mixing)

    def stride(self, eta_l: Tensor) -> Tensor:
        """By what a learner scales a gradient in a step: the stepsize, or 1 in lanes whose method
        asks for the gradient itself."""
        return eta_l if self._asking_l is None else eta_l.masked_fill(self._asking_l, 1.0)

    @cached_property
    def _asking_l(self) -> Tensor | None:
        """Those lanes; None: there are none."""
        asking = [one.lanes for one in self.mixing if one.method and one.method.asks_gradient]
        asking_l = torch.zeros(len(self), dtype=torch.bool, device=self.world.device)
        for lanes in asking:
            asking_l[lanes] = True
        return asking_l if asking else None

    def chunk(self) -> int:
        """Devices that step at once: as many as the working memory holds."""
        n, device = self.world.held, self.world.device
        each, room = step_bytes(self.world, len(self)), working_memory(device)
        if not self.has_methods:
            return max(1, min(n, room // max(1, each)))
        models = len(self) * self.world.learner.d * self.world.dtype.itemsize
        if device.type == "cuda":  # beside what methods keep, a step's temporaries are small
            room = min(room, max(GPU_LEAST, n * models // GPU_PART))
        # One of the methods may keep the models that a step starts from.
        return max(1, min(n, room // (each + models)))

    def keep(self, lanes: Sequence[int]) -> "Stack":
        """The same stack with only these lanes (the others have diverged)."""
        return build_stack(self.world, [self.experiments[lane] for lane in lanes])


def step_bytes(world: World, lanes: int) -> int:
    """Temporary memory of a local step, per device."""
    training = world.experiment.training
    with arithmetic(training.precision):
        return world.learner.bytes_per_device(lanes, training.batch)


def working_memory(device: torch.device) -> int:
    """What the temporaries of a step may take."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        if torch.are_deterministic_algorithms_enabled():  # whatever else is in memory
            return int(total * GPU_FIXED_SHARE)
        return int(free * GPU_WORKING_SHARE)
    return CPU_WORKING_SET


def build_stack(world: World, experiments: Sequence[Experiment]) -> Stack:
    shared = world.experiment.world_key(world.fingerprints)
    for experiment in experiments:
        if experiment.world_key(world.fingerprints) != shared:
            raise SkerryError(
                "lanes of one stack must share their data, model, batches, rounds and seed. "
                "Run these experiments as separate stacks."
            )
        server = experiment.server
        for field in ("sampled", "sampled_end") if server.is_there else ():
            sampled = getattr(server, field)
            if sampled is not None and sampled > world.n:  # a graph file knows only here
                raise SkerryError(
                    f"server.{field} must be between 1 and the number of devices (got {sampled} "
                    f"of {world.n} devices). Lower server.{field}."
                )
    in_company = sorted(((company(e), e) for e in experiments), key=itemgetter(0))
    companies, ordered = [c for c, _ in in_company], [e for _, e in in_company]
    etas_tl = _stepsizes(world, ordered)
    return Stack(
        world=world,
        experiments=tuple(ordered),
        keys=tuple(world.key(e) for e in ordered),
        mixing=tuple(
            _mixing_group(lanes, world, ordered[lanes.start])
            for lanes in _runs(network for network, _ in companies)
        ),
        servers=tuple(
            _server_group(lanes, world, ordered[lanes.start])
            for lanes in _runs(zip(companies, map(_own_course, ordered), strict=True))
        ),
        etas_tl=torch.from_numpy(etas_tl).to(world.device, world.dtype),
    )


def company(experiment: Experiment) -> tuple[str, str]:
    """Lanes with the same network, sleep and method mix together, unless the server says when;
    with the same server too, they meet it together."""
    network, fleet, training = experiment.network, experiment.availability, experiment.training
    server = experiment.server.model_dump_json(exclude={"name"})
    mixing = (
        network.model_dump_json(),
        fleet.model_dump_json(),
        training.order,
        training.weights,
        experiment.method.model_dump_json(),
        f"{training.optimizer} {training.weight_decay} {training.options_for(LOCAL)}",
        "" if network.mix_with_server else server,
    )
    return "\n".join(mixing), server


def _own_course(experiment: Experiment) -> object:
    """Lanes whose server goes by the models meet it each by itself."""
    server = experiment.server
    adapts = server.is_there and server.is_adaptive()
    return object() if adapts else None


def _mixing_group(lanes: slice, world: World, first: Experiment) -> MixingGroup:
    return MixingGroup(
        lanes,
        Mixer(world.fleet_of(first), world.device, world.dtype, world.party),
        steps=first.network.gossip_steps,
        adapts_first=first.training.order == "adapt_then_mix",
        awake=world.awake(first),
        scale_n=data_scale(world) if first.training.weights == "data" else None,
        rests=_rests(first),
        method=method_of(first),
        compression=link_rule(first),
    )


def _rests(experiment: Experiment) -> frozenset[int]:
    if experiment.network.mix_with_server:
        return frozenset()
    return frozenset(experiment.server.server_rounds(experiment.rounds))


def method_of(experiment: Experiment) -> Method | None:
    """None: plain SGD."""
    method, training = experiment.method, experiment.training
    if method.is_plain:
        return None if training.is_plain else LocalOptimizer(training)
    with registry.users_own("method", method.name):
        made = registry.resolve("method", method.name)(**method.options_for("method"))
    if not isinstance(made, Method):
        raise SkerryError(
            f"method '{method.name}' must be a class that inherits from "
            f"skerry.methods.method.Method (got {type(made).__name__})."
        )
    return made


def data_scale(world: World) -> Tensor:
    """n p_i: what a device's stepsize is multiplied by, p_i its part of all samples."""
    sizes = world.partition.sizes
    scale_n = torch.from_numpy(len(sizes) * sizes / sizes.sum())[world.party.devices]
    return scale_n.to(world.device, world.dtype)


def _server_group(lanes: slice, world: World, first: Experiment) -> ServerGroup:
    server = first.server
    optimizer = registry.resolve(OPTIMIZER, server.optimizer)
    kinds = (PRIMITIVE, OPTIMIZER)
    asking = [kind for kind in kinds if takes_context(kind, server.functions[kind])]
    return ServerGroup(
        lanes,
        server,
        _told_primitive(server),
        optimizer.start,
        partial(optimizer.deliver, **server.options_for(OPTIMIZER)),
        Sampler(world, first),
        Course(world, first),
        first.fleet.reach_asleep,
        method_of(first),
        server_rule(first),
        tuple(asking),
    )


def _told_primitive(server: Server) -> Primitive:
    primitive = registry.resolve(PRIMITIVE, server.primitive)
    return partial(primitive, **server.options_for(PRIMITIVE))


def _stepsizes(world: World, experiments: Sequence[Experiment]) -> NDArray[np.float64]:
    """Of every lane in every round, [T, L]; of hundreds of lanes only a few train differently."""
    alike = [_trains_alike(experiment) for experiment in experiments]
    different = dict(zip(alike, experiments, strict=True))
    factors = {mark: _scheduled(world, one) for mark, one in different.items()}
    return np.array([factors[mark] for mark in alike]).reshape(len(alike), world.rounds).T


def _trains_alike(experiment: Experiment) -> Hashable:
    """A schedule that is told where a run stands knows the server rounds, too."""
    training = experiment.training
    asks = takes_context("schedule", training.schedule)
    return (training, experiment.server) if asks else training


def _scheduled(world: World, experiment: Experiment) -> NDArray[np.float64]:
    training, factor = experiment.training, schedule_of(world, experiment)
    return np.array([training.stepsize * factor(t) for t in range(world.rounds)])


def schedule_of(world: World, experiment: Experiment) -> Callable[[int], float]:
    """The factor on the stepsize, by the round."""
    training = experiment.training
    schedule = registry.resolve("schedule", training.schedule)
    options = training.options_for("schedule")
    asks = takes_context("schedule", training.schedule)
    met = experiment.server.known_rounds(world.rounds) if asks else ()

    def factor(t: int) -> float:
        number = bisect_left(met, t)
        told = {CONTEXT: world.context(t, number, options=options)} if asks else {}
        found: float = schedule(t, world.rounds, training, **options, **told)
        return found

    return factor


def _runs(labels: Iterable[Hashable]) -> list[slice]:
    """Maximal runs of equal neighbours."""
    ends = list(accumulate(len(list(run)) for _, run in groupby(labels)))
    return [slice(start, end) for start, end in pairwise([0, *ends])]
