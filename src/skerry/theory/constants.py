"""Constants of the theory, measured on an experiment along one of its runs."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from skerry.config import labels
from skerry.config.experiment import Experiment, Server
from skerry.data.dataset import Dataset
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, World, build_world, pick_device
from skerry.errors import SkerryError, argument
from skerry.models.quadratic import QuadraticLearner
from skerry.network.contraction import MixingParameters
from skerry.theory import point_constants
from skerry.theory.parameters import Parameters
from skerry.theory.participation import has_exchange
from skerry.theory.point_constants import Measurement, PointConstants, Smoothness

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Constants:
    """The measured constants of an experiment.

    The theory needs suprema over x. The properties are maxima over `points`: lower estimates.
    """

    experiment: Experiment
    sizes: tuple[int, ...]
    mixing: MixingParameters
    f0: Measurement  # f(x0) minus a lower bound: the minimum of the quadratic, 0 for other losses
    R0_squared: float | None  # ||x0 - x*||^2, or None if x* is not known
    points: tuple[PointConstants, ...]  # the constants after each of the measured rounds
    remarks: tuple[str, ...]  # differences between the experiment and the assumptions of the theory

    @property
    def zeta_intra2(self) -> Measurement:
        return self._largest(lambda at: at.intra.total)

    @property
    def zeta_inter2(self) -> Measurement:
        return self._largest(lambda at: at.inter.total)

    @property
    def sigma2(self) -> Measurement:
        return self._largest(lambda at: at.sigma2)

    @property
    def sigma2_max(self) -> Measurement:
        return self._largest(lambda at: at.sigma2_max)

    @property
    def smoothness(self) -> Smoothness:
        return max((at.smoothness for at in self.points), key=lambda found: found.value)

    def parameters(
        self, *, epsilon: float, convex: bool = False, initial_error: float | None = None
    ) -> Parameters:
        """Parameters of a bound; `initial_error` overrides f0, or R0^2 if convex."""
        if self.why_no_bounds:
            raise SkerryError(self.why_no_bounds)
        if initial_error is None:
            initial_error = self.R0_squared if convex else self.f0.value
        if initial_error is None:
            raise SkerryError(
                f"R0^2 = ||x0 - x*||^2 must be known for a convex bound (got model "
                f"'{self.experiment.model.name}', whose optimum is not). Give "
                f"{argument('initial_error')}, or use convex=False."
            )
        server, n = self.experiment.server, sum(self.sizes)
        K = _expected_sampled(server, n)
        known = has_exchange(server.selection, server.weights, self.sizes, K)
        return Parameters(
            devices=n,
            components=self.sizes,
            sampled=K,
            period=server.period,
            p=self.mixing.minimum,
            zeta_intra=math.sqrt(self.zeta_intra2.value),
            zeta_inter=math.sqrt(self.zeta_inter2.value),
            sigma2=self.sigma2.value,
            smoothness=self.smoothness.value,
            initial_error=initial_error,
            epsilon=epsilon,
            selection=server.selection if known else "uniform",
            weights=server.weights if known else "equal",
        )

    @property
    def why_no_bounds(self) -> str:
        """Why no bound holds for the experiment; empty if there are bounds."""
        if (epochs := self.experiment.training.local_epochs) is not None:
            return (
                "bounds hold for devices that take one local step a round (got "
                f"training.local_epochs = {epochs}). Set training.local_steps=1 in its place."
            )
        moving = self.experiment.server.first_schedule("sampled", "period")
        return moving and (
            f"bounds hold for a K and an H that stay (got {moving}). Set it to constant, or give "
            "skerry.theory.Parameters the K and H of interest."
        )

    def to_json(self) -> dict[str, Any]:
        """The constants as plain data for JSON."""
        largest = ("zeta_intra2", "zeta_inter2", "sigma2", "sigma2_max")
        return {
            "components": list(self.sizes),
            "sampled": self.experiment.server.sampled,
            "period": self.experiment.server.period,
            "suprema": {name: asdict(getattr(self, name)) for name in largest},
            "smoothness": asdict(self.smoothness),
            "mixing": asdict(self.mixing),
            "f0": asdict(self.f0),
            "R0_squared": self.R0_squared,
            "checkpoints": [asdict(at) for at in self.points],
            "remarks": list(self.remarks),
        }

    def _largest(self, of: Callable[[PointConstants], Measurement]) -> Measurement:
        return max(map(of, self.points), key=lambda measured: measured.value)


def measure_constants(
    experiment: Experiment,
    *,
    rounds: Sequence[int] = (0, 10, 50),
    draws: int = 20,
    device: str = "cpu",
    graph: "nx.Graph[Any] | None" = None,
    dataset: Dataset | None = None,
    model: Callable[..., Any] | None = None,
) -> Constants:
    """Run the experiment and measure its constants at the average model.

    They are measured at the start and after each of `rounds`; rounds beyond the experiment's last
    count as its last. Each of the `draws` takes two minibatches of every device.
    """
    materials = Materials(graph=graph, dataset=dataset, model=model)
    world = build_world(experiment, materials, pick_device(device))
    return constants_of(world, rounds=rounds, draws=draws)


def constants_of(world: World, *, rounds: Sequence[int], draws: int) -> Constants:
    """`measure_constants` for a world that is already built."""
    check_all_shared(world)
    if draws < 2 or min(rounds, default=0) < 0:
        raise SkerryError(
            f"draws must be at least 2 and rounds at least 0 (got {draws} draws and rounds "
            f"{', '.join(map(str, rounds))}). Raise them."
        )
    wanted = sorted({0, *(min(t, world.rounds) for t in rounds)})
    known = point_constants.known_smoothness(world)
    points = []
    for t, x_d in _average_models(world, wanted):
        chunk = build_stack(world, [world.experiment]).chunk()
        smoothness = known or point_constants.estimate_smoothness(world, x_d, t, chunk)
        points.append(point_constants.measure_at_point(world, x_d, t, draws, chunk, smoothness))
    exact = _exact_initial_errors(world)
    return Constants(
        experiment=world.experiment,
        sizes=world.sizes,
        mixing=world.fleet.mixing_parameters(),
        f0=Measurement(exact[0], 0.0) if exact else points[0].loss,
        R0_squared=exact[1] if exact else None,
        points=tuple(points),
        remarks=tuple(_remarks(world)),
    )


def check_all_shared(world: World) -> None:
    """Raise a SkerryError if devices keep parts of their models private."""
    if world.private:
        raise SkerryError(
            "the theory holds for models that devices share as a whole (got model.private = "
            f"{list(world.experiment.model.private)}). Leave model.private out."
        )


def _average_models(world: World, wanted: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
    """Round and average model [d] of one run, after each of the wanted rounds."""
    for moment in simulate(build_stack(world, [world.experiment])):
        if moment.phase == "before_server" or moment.round not in wanted:
            continue
        x_d = moment.state.X_nld[:, 0].mean(dim=0)
        if not x_d.isfinite().all():
            break
        yield moment.round, x_d
        if moment.round == wanted[-1]:
            return
    raise SkerryError(
        f"the run diverged before round {wanted[-1]}: there is no model to measure at. "
        "Lower training.stepsize."
    )


def _exact_initial_errors(world: World) -> tuple[float, float] | None:
    """f(x0) - f* and ||x0 - x*||^2 of the quadratic, where x* is the mean of the devices' means."""
    learner = world.learner
    if not isinstance(learner, QuadraticLearner):
        return None
    means = [x.mean(0) for x in point_constants.samples_by_device(world)]
    away_d = (world.initial() - torch.stack(means).mean(dim=0)).double()
    return float(0.5 * away_d.square() @ learner.a_d.double()), float(away_d.square().sum())


def _expected_sampled(server: Server, n: int) -> int:
    """K; for Bernoulli sampling the mean number of sampled devices, rounded."""
    if server.selection == "bernoulli":
        return max(1, round(server.sample_prob * n))
    return server.sampled


_FIXED = {
    "beta": "the theory's beta stays as it is",
    "sampled": "the theory's server samples as many in every server round",
    "period": "the theory's server meets devices at even times",
}


def _remarks(world: World) -> Iterator[str]:
    """Differences between the experiment and the assumptions of the theory."""
    experiment = world.experiment
    training, server = experiment.training, experiment.server
    if training.local_steps > 1:
        yield f"the theory takes one local step a round (here {training.local_steps})"
    if world.starts is not None:
        yield "the theory starts all devices at one point (here each has its own weights)"
    if training.schedule != "constant":
        yield f"the theory keeps the stepsize constant (here {training.schedule})"
    if training.sampling != "replacement":
        yield f"the theory draws minibatches independently (here {training.sampling})"
    if server.optimizer != "fedavg":
        yield f"the theory's server delivers the plain average (here {server.optimizer})"
    if server.offset:
        yield f"the theory's server meets devices from round 0 on (here {server.offset})"
    for field, stays in _FIXED.items():
        plays = field != "beta" or server.primitive == labels.BLEND
        if server.is_there and plays and server.has_schedule(field):
            yield f"{stays} (here {server.first_schedule(field)})"
    if server.primitive == "none":
        yield "the theory has a server (here none)"
    asked = server.selection, server.weights, world.sizes, _expected_sampled(server, world.n)
    if server.is_there and not has_exchange(*asked):
        yield (
            f"the theory knows no law of {server.selection} sampling with {server.weights} weights "
            "here; bounds take it for uniform"
        )
    if experiment.network.gossip_steps != 1:
        yield f"the theory mixes once a round (here {experiment.network.gossip_steps} times)"
    if training.order != "adapt_then_mix":
        yield f"the theory steps before it mixes (here {training.order})"
    if world.awake(experiment) is not None:
        yield "the theory's devices are always awake (here some sleep)"
    if server.is_there and server.is_timed:
        yield "the theory's server waits for all devices that it samples (here some may be late)"
