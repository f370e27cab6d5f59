"""Runs of the engine against the theory: averages below the certified bound, ratios on average
what delta and kappa say."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.measure.disagreement import spread, squared_shift
from skerry.models.quadratic import QuadraticLearner
from skerry.theory.certified import certified_average
from skerry.theory.constants import constants_of
from skerry.theory.operators import delta, kappa
from skerry.theory.point_constants import known_smoothness
from theory_bench import bench, with_seed

SEEDS, ROUNDS = 6, 32
LOOKS = (1, 4, ROUNDS)
PRIMITIVES = ("s2s", "s2a", "blend")
MODELS = {
    "quadratic": ("model.name=quadratic", "model.conditioning=4"),
    "softmax regression": ("model.name=linear",),
}
FLEETS = {
    "two islands": (),
    "unequal islands": ("network.components=[4, 8]",),
    "one island": ("network.components=1",),
    "lone devices": ("network.components=12", "data.inter=iid", "data.intra=iid"),
}


class Objective:
    """f, the mean of all losses, exactly: its distance to f* and its slope, at any models."""

    def __init__(self, world):
        self.world = world
        sizes = torch.from_numpy(world.partition.sizes)
        share = 1 / (world.n * sizes.double())
        self.rows = torch.from_numpy(world.partition.order)
        self.weights = torch.repeat_interleave(share, sizes)
        x = torch.zeros(1, world.learner.d, dtype=torch.float64, requires_grad=True)
        search = torch.optim.LBFGS(
            [x],
            max_iter=2000,
            tolerance_grad=1e-13,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )

        def closure():
            search.zero_grad()
            loss = self.losses(x).sum()
            loss.backward()
            return loss

        search.step(closure)
        self.x_star = x.detach()
        self.f_star = float(self.losses(self.x_star))
        assert self.slopes(self.x_star).max() < 1e-12

    def losses(self, X_md):
        learner, x, y = (
            self.world.learner,
            self.world.x_train[self.rows],
            self.world.y_train[self.rows],
        )
        if isinstance(learner, QuadraticLearner):
            squares_mn = ((X_md[:, None] - x) ** 2) @ learner.a_d / 2
            return squares_mn @ self.weights
        log_P = torch.log_softmax(learner.scores(X_md, x), dim=2)
        return -log_P[:, torch.arange(len(y)), y] @ self.weights

    def slopes(self, X_md):
        """||grad f||^2 for each model."""
        at = X_md.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self.losses(at).sum(), at)
        return gradient.square().sum(dim=1)


def lanes_of(world, L, selection="uniform"):
    """K x H x topology x primitive, at the largest certified stepsize and at a fifth of it."""
    most = len(world.sizes) * min(world.sizes) if selection == "one_each" else world.n
    grid = product((2, 6, most), (1, 4), ("ring", "complete"), PRIMITIVES, (1, 5))
    if len(world.sizes) == world.n:
        grid = (cell for cell in grid if cell[2] == "ring")
    return [
        world.experiment.with_settings(
            f"server.sampled={K}",
            f"server.period={H}",
            f"network.topology={topology}",
            f"server.primitive={primitive}",
            f"server.selection={selection}",
            f"training.stepsize={1 / (4 * L * share)!r}",
        )
        for K, H, topology, primitive, share in grid
    ]


def measured(world, lanes, objective):
    """Means over seeds of f - f* and of ||grad f||^2 at the average model, [rounds, lanes]."""
    errors, slopes = torch.zeros(2, ROUNDS, len(lanes), dtype=torch.float64)
    for seed in range(SEEDS):
        here = with_seed(world, seed)
        stack = build_stack(here, [lane.model_copy(update={"seed": seed}) for lane in lanes])
        for moment in simulate(stack):
            if moment.phase != "before_server" and moment.round < ROUNDS:
                average_ld = moment.state.X_nld.mean(dim=0)
                errors[moment.round] += (objective.losses(average_ld) - objective.f_star) / SEEDS
                slopes[moment.round] += objective.slopes(average_ld) / SEEDS
    return stack.experiments, errors.detach().numpy(), slopes.numpy()


def certificates(world, lanes, objective):
    """A measured average and its certified bound, for every lane and horizon, convex and not."""
    R0_squared = float((world.initial() - objective.x_star).square().sum())
    f0 = float(objective.losses(world.initial()[None])) - objective.f_star
    constants = {}
    for topology in {lane.network.topology for lane in lanes}:
        experiment = world.experiment.with_settings(f"network.topology={topology}")
        there = replace(world, experiment=experiment, fleet=world.fleet_of(experiment))
        constants[topology] = constants_of(there, rounds=[2, 10, ROUNDS], draws=25)
    experiments, errors, slopes = measured(world, lanes, objective)
    for lane, e in enumerate(experiments):
        x = replace(
            constants[e.network.topology].parameters(epsilon=1, initial_error=R0_squared),
            sampled=e.server.sampled,
            period=e.server.period,
            selection=e.server.selection,
        )
        for rounds, (error, convex, averages) in product(
            LOOKS, ((R0_squared, True, errors), (f0, False, slopes))
        ):
            certified = certified_average(
                replace(x, initial_error=error),
                e.server.primitive,
                beta=e.server.beta,
                stepsize=e.training.stepsize,
                rounds=rounds,
                convex=convex,
            )
            yield averages[:rounds, lane].mean(), certified


@pytest.mark.parametrize(
    ("model", "fleet"),
    [
        *(("quadratic", fleet) for fleet in FLEETS),
        ("softmax regression", "two islands"),
        ("softmax regression", "unequal islands"),
    ],
)
def test_running_averages_stay_below_the_certificate(model, fleet):
    """Over K, H, topologies, stepsizes, S2S, S2A and blend, at every horizon looked at, both the
    convex and the non-convex average stay below their certified bounds."""
    world = bench(*MODELS[model], *FLEETS[fleet], f"rounds={ROUNDS}")
    lanes = lanes_of(world, known_smoothness(world).value)
    for average, certified in certificates(world, lanes, Objective(world)):
        assert average <= certified < np.inf


@pytest.mark.parametrize("selection", ["per_component", "one_each"])
@pytest.mark.parametrize(
    "fleet", ["two islands", pytest.param("unequal islands", marks=pytest.mark.slow)]
)
def test_other_rules_stay_below_their_certificates(fleet, selection):
    """So do they where the server samples island by island."""
    world = bench(*MODELS["quadratic"], *FLEETS[fleet], f"rounds={ROUNDS}")
    lanes = lanes_of(world, known_smoothness(world).value, selection)
    for average, certified in certificates(world, lanes, Objective(world)):
        assert average <= certified < np.inf


def test_what_is_left_at_the_optimum():
    """Started where f is lowest, only noise, disagreement and bias lift the average: it stays
    below the certificate, and the certificate is not far above."""
    world = bench(*MODELS["quadratic"], "training.batch=1", f"rounds={ROUNDS}")
    away = Objective(world).x_star
    world = replace(world, x_train=world.x_train - away)
    lanes = lanes_of(world, known_smoothness(world).value)
    shares = [average / bound for average, bound in certificates(world, lanes, Objective(world))]
    assert 0.1 < max(shares) <= 1


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.7, 1.0])
def test_ratios_of_a_long_run(beta):
    """n = 100, K = 20: disagreement left and bias made scatter around (1-beta)^2 .8081 and
    beta^2 .0404 of the disagreement before the server, within their sampling error."""
    world = bench(
        "model.name=quadratic",
        "network.devices=100",
        "network.topology=complete",
        "server.sampled=20",
        "server.period=2",
        "server.primitive=blend",
        f"server.beta={beta}",
        "data.samples=400",
        "rounds=800",
    )
    assert (delta(100, 20), kappa(100, 20)) == (
        pytest.approx(0.8081, abs=5e-5),
        pytest.approx(0.0404, abs=5e-5),
    )
    left, made = [], []
    for moment in simulate(build_stack(world, [world.experiment])):
        if moment.phase == "before_server":
            before = spread(moment.state.X_nld, world.sizes)
        if moment.server_rounds:
            after = spread(moment.state.X_nld, world.sizes)
            left.append(float(after.total_l / before.total_l))
            made.append(float(squared_shift(before, after) / before.total_l))
    assert len(left) == 400
    for ratios, expected in (
        (np.array(left), (1 - beta) ** 2 * delta(100, 20)),
        (np.array(made), beta**2 * kappa(100, 20)),
    ):
        # Samples are drawn independently of the models, so the ratios are uncorrelated.
        error = ratios.std(ddof=1) / np.sqrt(len(ratios))
        assert abs(ratios.mean() - expected) <= 4 * error + 1e-12
        assert error < 0.1 * expected + 1e-12
