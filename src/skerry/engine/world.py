"""The world: data, partition, model, initial point and draws that the lanes of a stack share."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from skerry.config.experiment import Experiment, Network
from skerry.config.fields import Availability
from skerry.data.batches import LocalEpochs
from skerry.data.dataset import Split
from skerry.data.holdings import Ints
from skerry.data.partition import Partition
from skerry.data.sources.catalog import Dataset, load_dataset
from skerry.data.sources.published import PUBLISHED
from skerry.data.split import build_partition, layout_of
from skerry.engine.minibatch_draws import MinibatchDraws
from skerry.engine.participation.awake import Awake
from skerry.engine.ranks.exchange import Communicator
from skerry.engine.ranks.group import Rank, RankGroup
from skerry.errors import SkerryError, argument, unknown
from skerry.files import plain_path
from skerry.models.layout import (
    Layout,
    Padding,
    count,
    parameter_mask,
    parameters_of,
    private_parameters,
)
from skerry.models.learner import Learner, Problem, build_learner
from skerry.models.module_checks import warn_of_scaled_tokens
from skerry.models.weights import Weights, read_weights, start_rows
from skerry.network.fleet import Fleet, build_fleet
from skerry.network.graphs import GraphSequence, read_graphs
from skerry.plugins.context import Context
from skerry.plugins.fingerprint import identity
from skerry.tasks.choice import choose_task, outputs_of
from skerry.tasks.task import LearningTask

if TYPE_CHECKING:
    import networkx as nx


BLOCK = 2**16
"""Samples that are prepared at once."""


@dataclass(frozen=True)
class Materials:
    """Objects given from Python: a graph, a data set, a model factory, initial weights."""

    graph: "nx.Graph[Any] | GraphSequence | None" = None
    dataset: Dataset | None = None
    model: Callable[..., Any] | None = None
    weights: Weights | None = None
    factory: str = ""
    """The fingerprint of the model factory, once it is known; workers receive it."""

    def with_fingerprint(self) -> "Materials":
        """The materials with the fingerprint of the model factory, which is found once."""
        if self.model is None or self.factory:
            return self
        return replace(self, factory=identity(self.model))


@dataclass(frozen=True)
class Starts:
    """Initial models that differ between devices."""

    rows_nd: Tensor
    """Those of the local devices."""
    mean_d: Tensor
    """The mean over all devices."""


@dataclass(frozen=True)
class World:
    """Data, partition, model and random draws that the lanes of a stack share."""

    experiment: Experiment
    """Any of the experiments that share this world; only the shared fields are read."""
    materials: Materials
    device: torch.device
    dtype: torch.dtype
    fleet: Fleet
    dataset: Dataset
    partition: Partition
    task: LearningTask
    learner: Learner
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    x_own: Tensor
    """Test inputs with those of single devices; `partition.own_tests` says whose they are."""
    y_own: Tensor
    fingerprints: dict[str, str] = field(default_factory=dict)
    ranks: RankGroup = field(default_factory=RankGroup)
    """The processes that hold the devices; `x_train` holds the samples of the local ones."""
    starts: Starts | None = None
    """None: all devices start at the same point."""
    _awake: dict[Availability, Awake] = field(default_factory=dict)
    _fleets: dict[tuple[Network, Availability], Fleet] = field(default_factory=dict)
    step_groups: dict[int, list[Any]] = field(default_factory=dict)
    """A cache of `engine/minibatches.py`: with local epochs, the devices that step together."""

    @property
    def n(self) -> int:
        return self.fleet.devices

    @property
    def local_devices(self) -> int:
        """The number of local devices, of all n."""
        return len(range(self.n)[self.ranks.devices])

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.fleet.sizes

    @property
    def islands(self) -> tuple[str, ...]:
        """The name of every device's island: from the data, else its number."""
        holdings = self.dataset.holdings if self.experiment.data.split == "given" else None
        named = holdings.islands_of(self.fleet.labels) if holdings else ()
        return named or tuple(map(str, self.fleet.island_of))

    @cached_property
    def island_n(self) -> Tensor:
        """The number of every device's island, on the compute device.

        It is cached because sending it again would make a GPU wait.
        """
        return torch.from_numpy(self.fleet.island_of).to(self.device)

    @property
    def seed(self) -> int:
        return self.experiment.seed

    @property
    def rounds(self) -> int:
        return self.experiment.rounds

    @cached_property
    def test_classes(self) -> Tensor:
        """The test labels (or strata that stand for them) as [N, classes] of zeros and ones."""
        labels = torch.from_numpy(self.dataset.strata("test")).to(self.device)
        return torch.nn.functional.one_hot(labels, self.dataset.strata_count).to(self.dtype)

    def has_inputs_of(
        self, experiment: Experiment, materials: Materials, device: torch.device, dtype: torch.dtype
    ) -> bool:
        """Whether another world would have the same data set, scaled and prepared the same way.

        Only published data sets qualify: others may depend on the seed.
        """
        shared = attrgetter("data.dataset", "data.path", "data.scaling", "model", "task")
        return (
            experiment.data.dataset in PUBLISHED
            and shared(self.experiment) == shared(experiment)
            and (self.materials, self.device, self.dtype) == (materials, device, dtype)
        )

    def key(self, experiment: Experiment) -> str:
        """The content key of a lane."""
        return experiment.key(self.fingerprints)

    def fleet_of(self, experiment: Experiment) -> Fleet:
        """The fleet of a lane: the same devices and islands, its own links."""
        key, awake = (experiment.network, experiment.availability), self.awake(experiment)
        if key[0] == self.fleet.network and awake is None:
            return self.fleet
        if key not in self._fleets:
            given = self.materials.graph, self.fleet.labels
            fleet = build_fleet(key[0], self.seed, *given, self.rounds)
            self._fleets[key] = replace(fleet, awake=awake)
        fleet = self._fleets[key]
        if fleet.sizes != self.sizes:
            raise SkerryError(
                f"lanes of one stack must have the same islands (got sizes {fleet.sizes} "
                f"and {self.sizes}). Run them separately."
            )
        return fleet

    def awake(self, experiment: Experiment) -> Awake | None:
        """The awake devices of a lane; None if no device ever sleeps."""
        availability, known, fleet = experiment.availability, self._awake, self.fleet
        if availability not in known:
            known[availability] = Awake(availability, self.seed, fleet.island_of, fleet.labels)
        return None if known[availability].always else known[availability]

    @cached_property
    def draws(self) -> MinibatchDraws:
        """The random draws of the local devices."""
        partition, samples, local = self.partition, len(self.y_train), self.ranks.devices
        if isinstance(self.ranks, Rank):  # it holds its samples device by device
            order = np.arange(len(partition.order)) - partition.offsets[local.start]
            partition = replace(partition, order=order)
        context = Context(
            "a sampling is built",
            seed=self.seed,
            rounds=self.rounds,
            devices=self.fleet.labels,
            sizes=self.sizes,
            samples=partition.sizes,
            _is_kept=True,
        )
        return MinibatchDraws(self.experiment, partition, samples, self.device, local, context)

    @property
    def local_epochs(self) -> LocalEpochs | None:
        """Passes over the data and their steps; None where all devices take as many steps."""
        return self.draws.local_epochs

    @property
    def batch(self) -> int:
        """The number of samples in the largest minibatch."""
        return self.draws.batch

    @property
    def steps_a_round(self) -> int:
        """The local steps of all devices in a round, summed."""
        epochs = self.local_epochs
        steps = self.n * self.experiment.training.local_steps
        return steps if epochs is None else int(epochs.steps.sum())

    @cached_property
    def _epoch_steps_n(self) -> Tensor:
        assert self.local_epochs is not None
        return torch.from_numpy(self.local_epochs.steps).to(self.device)

    def local_steps(self, devices: slice | Tensor) -> Any:
        """Local steps in a round; with local epochs those of each of these devices, [m, 1, 1]."""
        if self.local_epochs is None:
            return self.experiment.training.local_steps
        return self._epoch_steps_n[devices].view(-1, 1, 1)

    def initial(self) -> Tensor:
        """The common initial point [d]; the mean where devices start at different points."""
        start_d = self.learner.initial() if self.starts is None else self.starts.mean_d
        return start_d.to(self.device, self.dtype)

    def initial_models(self) -> Tensor:
        """The initial models of the local devices, [n, d]."""
        if self.starts is None:
            return self.initial().expand(self.local_devices, -1)
        return self.starts.rows_nd.to(self.device, self.dtype)

    def batch_indices(self, t: int, step: int) -> Tensor:
        """Training indices [n, B] of the local devices' minibatches in a local step."""
        return self.draws.batch_indices(t, step)

    def noise_keys(self, t: int, step: int) -> Tensor:
        """One integer per device for models that draw noise of their own."""
        if not self.learner.noisy:
            return torch.zeros(self.local_devices, dtype=torch.int64, device=self.device)
        return self.draws.noise_keys(t, step)

    def compression_keys(self, purpose: str, *numbers: int) -> Tensor:
        """One integer per device, the keys of a compression's draws."""
        return self.draws.keys(f"compressed_{purpose}", *numbers)

    @cached_property
    def real_d(self) -> Tensor:
        """Mask of the places of a model that hold parameters; the others are padding."""
        return parameter_mask(self.layout, self.learner.d).to(self.device)

    @cached_property
    def shared_d(self) -> Tensor:
        """Mask of the places of a model that travel; the others are private parts or padding."""
        shared = [parameter for parameter in self.layout if parameter not in self.private]
        return parameter_mask(tuple(shared), self.learner.d).to(self.device)

    @cached_property
    def padding(self) -> Padding | None:
        """The padding of a row of X; None if it has none."""
        return None if self.real_d.all() else Padding(self.real_d)

    @cached_property
    def layout(self) -> Layout:
        """The parameters of a model and their places in a row of X."""
        return parameters_of(self.learner)

    @cached_property
    def private(self) -> Layout:
        """The parameters that never leave a device."""
        return private_parameters(self.layout, self.experiment.model.private)

    @property
    def shared_parameters(self) -> int:
        """The number of parameters in a message."""
        return self.learner.parameters - count(self.private)

    def server_order(self, t: int) -> Tensor:
        """One permutation of the devices per round, common to all lanes."""
        return self.draws.server_order(t)


def pick_device(name: str = "auto") -> torch.device:
    """The compute device of a name; auto takes a GPU where there is one."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name in ("auto", "cpu"):
        return torch.device("cuda" if gpus and name == "auto" else "cpu")
    here = [f"cuda:{number}" for number in range(gpus)]
    if name in ("cuda", *here) and gpus:
        return torch.device(name)
    if name.startswith("cuda"):
        raise SkerryError(
            f"no device '{name}': {gpus} CUDA devices are available here. Use "
            f"{argument('device')} auto."
        )
    raise SkerryError(unknown("device", name, ["auto", "cpu", "cuda", *here]))


def build_world(
    experiment: Experiment,
    materials: Materials | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    before: World | None = None,
    exchange: Communicator | None = None,
) -> World:
    """Load and split the data, build the model, and put both on the compute device.

    The inputs of a world that was built `before` are reused where they are the same. With an
    `exchange`, this process is one of several ranks and keeps the training samples of its devices.
    """
    materials = materials or Materials()
    device = torch.device(device)
    _check_precision(experiment.training.precision, device)
    if exchange or (before and not before.has_inputs_of(experiment, materials, device, dtype)):
        before = None
    graph = materials.graph
    if graph is None and experiment.network.is_file:
        graph = read_graphs(experiment.network.topology)  # before data are fetched in vain
    dataset = before.dataset if before else materials.dataset
    dataset = dataset or load_dataset(experiment.data, experiment.seed)
    network, names, data = experiment.network, None, experiment.data
    if graph is None:  # before the links of too large a fleet are drawn in vain
        network, names = layout_of(dataset, network, data)
        experiment = experiment.model_copy(update={"network": network})
    fleet = build_fleet(network, experiment.seed, graph, names, experiment.rounds)
    task = choose_task(experiment.task, dataset, experiment.seed)
    partition = build_partition(dataset, fleet.sizes, fleet.labels, data, experiment.seed)
    weights = materials.weights
    if weights is None and experiment.model.weights:
        weights = read_weights(plain_path(experiment.model.weights))
    problem = problem_of(experiment, dataset, task)
    learner = build_learner(experiment.model, problem, materials.model, weights)
    private_parameters(parameters_of(learner), experiment.model.private)  # refuse wrong names early
    rows_nd = start_rows(learner, weights, fleet.labels) if weights else None
    learner.to(device, dtype)
    warn_of_scaled_tokens(experiment, dataset, has_own_model=materials.model is not None)
    used = replace(materials, weights=weights)
    fingerprints = material_fingerprints(experiment, used, fleet, dataset, learner)
    ranks = RankGroup() if exchange is None else Rank(exchange, fleet.sizes)
    local = partition.of_devices(ranks.devices) if isinstance(ranks, Rank) else None

    y_local = dataset.y_train if local is None else dataset.y_train[local]

    def inputs(part: Split, count: int, held: Ints | None = None) -> Tensor:
        def block(some: slice) -> Tensor:
            rows = some if held is None else held[some]
            x = learner.prepare(torch.from_numpy(dataset.inputs(part, data.scaling, rows)))
            return x.to(device, dtype if x.is_floating_point() else None)

        return in_blocks(count, block)

    x_own = before.x_own if before else inputs("test", len(dataset.y_test))
    x_train = before.x_train if before else inputs("train", len(y_local), local)
    y_own, y_train = (
        task.targets(torch.from_numpy(y), dtype).to(device) for y in (dataset.y_test, y_local)
    )
    common = dataset.common_tests
    return World(
        experiment=experiment,
        materials=materials,
        device=device,
        dtype=dtype,
        fleet=fleet,
        dataset=dataset if local is None else dataset.holding(local),
        partition=partition,
        task=task,
        learner=learner,
        x_train=x_train,
        y_train=y_train,
        x_test=x_own[common],
        y_test=y_own[common],
        x_own=x_own,
        y_own=y_own,
        fingerprints=fingerprints,
        ranks=ranks,
        starts=None if rows_nd is None else Starts(rows_nd[ranks.devices], rows_nd.mean(dim=0)),
    )


def problem_of(experiment: Experiment, dataset: Dataset, task: LearningTask) -> Problem:
    """The shapes of data and task, as a model factory receives them."""
    outputs, tokens = outputs_of(task, dataset), dataset.tokens(experiment.data.scaling)
    return Problem(dataset.input_shape, outputs, experiment.seed, task, tokens)


def in_blocks(count: int, rows: Callable[[slice], Tensor]) -> Tensor:
    """All rows as one tensor, made a block at a time, so that large data are never held twice."""
    first = rows(slice(BLOCK))
    if count <= BLOCK:
        return first
    whole = first.new_empty(count, *first.shape[1:])
    whole[:BLOCK] = first
    for start in range(BLOCK, count, BLOCK):
        whole[start : start + BLOCK] = rows(slice(start, start + BLOCK))
    return whole


def _check_precision(precision: str, device: torch.device) -> None:
    if device.type != "cuda" or precision == "float32":
        return
    capability = torch.cuda.get_device_capability(device)
    if capability < (8, 0):
        raise SkerryError(
            f"training.precision = {precision!r} needs a GPU of compute capability 8.0 (got "
            f"{capability[0]}.{capability[1]}). Use float32."
        )


def material_fingerprints(
    experiment: Experiment, materials: Materials, fleet: Fleet, dataset: Dataset, learner: Learner
) -> dict[str, str]:
    """Fingerprints for content keys, of the parts that are not in the experiment's text."""
    fingerprints: dict[str, Callable[[], str]] = {
        "graph": fleet.fingerprint,
        "devices": lambda: sha256(repr(fleet.labels).encode()).hexdigest(),
        "dataset": dataset.fingerprint,
        # The initial point, which every seed has its own of, and the code of a factory.
        "model": lambda: sha256(learner.initial().contiguous().numpy().tobytes()).hexdigest(),
        "factory": lambda: materials.with_fingerprint().factory,
        "weights": lambda: materials.weights.digest if materials.weights else "",
    }
    return {name: fingerprints[name]() for name in outside(experiment, materials)}


def outside(experiment: Experiment, materials: Materials) -> list[str]:
    """The parts of a world that are not in the experiment's text."""
    data = experiment.deciding()["data"]
    graph = materials.graph is not None or experiment.network.is_file
    is_external = {
        "graph": graph,
        # A graph's fingerprint knows no names, but by their names devices hold their data.
        "devices": graph and experiment.data.split == "given",
        "dataset": materials.dataset is not None or data.get("path") or ":" in data["dataset"],
        "model": materials.model is not None or ":" in experiment.model.name,
        "factory": materials.model is not None,
        "weights": bool(experiment.model.weights) or materials.weights is not None,
    }
    return [name for name, external in is_external.items() if external]
