import json
from dataclasses import astuple

import numpy as np
import pytest
import torch

from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.errors import SkerryError
from skerry.report.screens.theory import bounds_command, print_constants
from skerry.theory.certified import certified_rounds
from skerry.theory.constants import constants_of, measure_constants
from skerry.theory.point_constants import (
    Measurement,
    draw_minibatch,
    known_smoothness,
    largest_curvatures,
    with_other_draws,
)
from theory_bench import bench, exact_constants, sample_gradients

WORLDS = {
    "linear on rings": (),
    "linear on unequal paths": ("network.components=[4, 8]", "network.topology=path"),
    "linear on one star": ("network.components=1", "network.topology=star"),
    "linear on lone devices": ("network.components=12", "data.inter=iid"),
    "quadratic on rings": ("model.name=quadratic", "model.conditioning=4"),
    "quadratic, lazy": ("model.name=quadratic", "network.mixing=lazy"),
    "module on rings": ("model.name=mlp", "model.hidden=[4]"),
}


def average_after(world, rounds):
    """The average model of the world's own run."""
    for moment in simulate(build_stack(world, [world.experiment])):
        if moment.round == rounds and moment.phase != "before_server":
            return moment.state.X_nld[:, 0].mean(dim=0)
    raise AssertionError


def close(measured, exact):
    """Within four standard errors; where nothing is random, to rounding."""
    return abs(measured.value - exact) <= 4 * measured.error + 1e-12


@pytest.mark.parametrize("name", WORLDS)
def test_estimates_are_unbiased(name):
    """At every checkpoint the means over draws agree with the sums over all samples."""
    world = bench(*WORLDS[name])
    found = constants_of(world, rounds=[5], draws=60)
    assert [at.round for at in found.points] == [0, 5]
    for at in found.points:
        exact = exact_constants(world, average_after(world, at.round))
        assert close(at.loss, exact.loss)
        assert close(at.sigma2, exact.sigma2_n.mean())
        for measured, pure, noise in (
            (at.intra, exact.intra_pure, exact.intra_noise),
            (at.inter, exact.inter_pure, exact.inter_noise),
        ):
            assert close(measured.pure, pure)
            assert close(measured.noise, noise)
            assert close(measured.total, pure + noise)
            assert measured.total.value == pytest.approx(
                measured.pure.value + measured.noise.value, rel=1e-9
            )


@pytest.mark.parametrize("name", ["linear on rings", "quadratic on rings"])
def test_standard_errors_are_honest(name):
    """More draws come closer to the exact value, about as fast as their errors say."""
    world = bench(*WORLDS[name])
    exact = exact_constants(world, world.initial())
    few, many = (constants_of(world, rounds=[0], draws=draws).points[0] for draws in (10, 300))
    for part, value in (
        (lambda at: at.intra.total, exact.intra_pure + exact.intra_noise),
        (lambda at: at.inter.pure, exact.inter_pure),
        (lambda at: at.sigma2, exact.sigma2_n.mean()),
    ):
        assert 2 < part(few).error / part(many).error < 15
        assert close(part(many), value)
        assert part(many).error < 0.05 * value


def test_the_noisiest_device():
    """With enough draws the largest sigma^2 over devices is found, at the device that has it."""
    world = bench()
    exact = exact_constants(world, world.initial()).sigma2_n
    (at,) = constants_of(world, rounds=[0], draws=400).points
    assert close(at.sigma2_max, exact.max())
    assert at.sigma2_max.value > at.sigma2.value


def test_one_sample_a_device_has_no_noise():
    """Where every device holds one sample, zeta^2 is pure heterogeneity, exactly."""
    world = bench("data.samples=12", "data.inter=iid")
    (at,) = constants_of(world, rounds=[0], draws=2).points
    exact = exact_constants(world, world.initial())
    assert at.sigma2_max == Measurement(0, 0)
    for measured, pure in ((at.intra, exact.intra_pure), (at.inter, exact.inter_pure)):
        assert measured.noise.value == 0
        assert measured.total.value == measured.pure.value == pytest.approx(pure)


@pytest.mark.parametrize(
    ("extra", "kind"),
    [
        (("network.topology=complete",), "intra"),
        (("network.components=12", "data.inter=iid"), "intra"),
        (("network.components=1",), "inter"),
    ],
    ids=["W = Pi_C", "lone devices", "one component"],
)
def test_where_there_is_nothing_to_differ(extra, kind):
    """zeta_intra is 0 if W = Pi_C or devices are alone, zeta_inter if there is one component."""
    found = constants_of(bench(*extra), rounds=[0], draws=3)
    assert getattr(found, f"zeta_{kind}2").value == pytest.approx(0, abs=1e-25)


def test_fresh_graphs():
    """Of full gradients a fresh regular graph leaves 1-p of what differs inside components."""
    world = bench("network.topology=regular", "network.degree=2", "network.dynamic=true")
    found = constants_of(world, rounds=[0], draws=500)
    exact = exact_constants(world, world.initial(), W=np.eye(12))
    assert found.mixing.method == "closed form"
    assert close(found.points[0].intra.pure, (1 - found.mixing.minimum) * exact.intra_pure)


def test_exact_on_the_quadratic():
    """L, f0 and R0^2 of the quadratic are its own; sigma^2 and zeta^2 do not depend on x."""
    world = bench("model.name=quadratic", "model.curvature=3", "model.conditioning=5")
    found = constants_of(world, rounds=[0, 8], draws=40)
    means = [world.x_train[world.partition.indices(i)].mean(dim=0) for i in range(12)]
    x_star = torch.stack(means).mean(dim=0)
    loss = exact_constants(world, world.initial()).loss - exact_constants(world, x_star).loss
    assert astuple(found.smoothness) == (pytest.approx(3), pytest.approx(3), "exact")
    assert found.f0 == Measurement(pytest.approx(loss), 0)
    assert found.R0_squared == pytest.approx(float(x_star.square().sum()))
    start, end = found.points
    for part in (lambda at: at.intra.total, lambda at: at.inter.total, lambda at: at.sigma2):
        difference = part(start).value - part(end).value
        assert abs(difference) <= 4 * np.hypot(part(start).error, part(end).error)


def test_smoothness_of_softmax_regression():
    """Half the largest eigenvalue of the second moment, of the worst device; single samples
    weigh in as one of a minibatch. No curvature of a whole loss exceeds it."""
    world = bench()
    shares = [world.x_train[world.partition.indices(i)].numpy() for i in range(12)]
    largest = max(np.linalg.eigvalsh(x.T @ x / len(x))[-1] for x in shares) / 2
    sample = max(np.sum(x**2, axis=1).max() for x in shares) / 2
    found = known_smoothness(world)
    assert found.method == "upper bound"
    assert found.of_losses == pytest.approx(largest)
    assert found.value == pytest.approx(2 / 3 * largest + sample / 3)
    everything = bench("training.batch=400")
    for rounds in (0, 8):
        at = average_after(world, rounds)
        curved = largest_curvatures(everything, at, draw_minibatch(everything), chunk=12)
        assert curved.max() <= 1.05 * found.of_losses


def test_minibatch_smoothness_holds_on_average():
    """E||grad f_B(x) - grad f_B(y)||^2 <= L^2 ||x - y||^2, over minibatches of every device."""
    world = bench()
    L, batch = known_smoothness(world).value, world.experiment.training.batch
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 10.0):
        x, y = torch.from_numpy(scale * rng.normal(size=(2, world.learner.d)))
        for device in range(12):
            rows = torch.from_numpy(world.partition.indices(device))
            changes = sample_gradients(world, x, rows)[1] - sample_gradients(world, y, rows)[1]
            mean = changes.mean(axis=0)
            spread = np.sum((changes - mean) ** 2) / len(changes) / batch
            assert np.sum(mean**2) + spread <= L**2 * float((x - y).square().sum())


def test_power_iteration():
    """At x = 0 softmax regression has curvature lambda_max(second moment)/classes."""
    world = bench()
    batch = draw_minibatch(world)
    found = largest_curvatures(world, world.initial(), batch, chunk=5, digits=9, rounds=1000)
    exact = max(np.linalg.eigvalsh(x.T @ x / len(x))[-1] / 4 for x in batch.x.numpy())
    assert float(found.max()) == pytest.approx(exact, rel=1e-6)


def test_modules_are_estimated():
    """A module's L is called an estimate, and is measured at every checkpoint."""
    found = constants_of(bench("model.name=mlp", "model.hidden=[4]"), rounds=[8], draws=2)
    assert found.smoothness.method == "estimate"
    values = [at.smoothness.value for at in found.points]
    assert len(set(values)) == 2
    assert found.smoothness.value == max(values)


def test_draws_are_fresh():
    """Constants come from batches that the run does not use, and no two draws share one."""
    world = bench()
    batches = [world.batch_indices(t, 0) for t in range(8)]
    batches += [
        with_other_draws(world, 0, draw, twin).batch_indices(0, 0)
        for draw in (0, 1)
        for twin in (0, 1)
    ]
    flat = {tuple(batch.flatten().tolist()) for batch in batches}
    assert len(flat) == len(batches)


def test_checkpoints():
    """The start is always measured; rounds beyond the last are measured at the last; the
    suprema are the maxima over checkpoints."""
    found = constants_of(bench(), rounds=[3, 50, 99], draws=3)
    assert [at.round for at in found.points] == [0, 3, 8]
    assert found.zeta_inter2.value == max(at.inter.total.value for at in found.points)
    assert found.sigma2.value == max(at.sigma2.value for at in found.points)
    assert found.f0.value == pytest.approx(np.log(4))
    json.dumps(found.to_json(), allow_nan=False)


def test_parameters_feed_the_bounds():
    """Measured constants are a setting that every bound takes."""
    found = measure_constants(bench("model.name=quadratic").experiment, rounds=[0], draws=3)
    x = found.parameters(epsilon=0.1)
    assert (x.sizes, x.sampled, x.period, x.initial_error) == ((6, 6), 5, 3, found.f0.value)
    assert x.zeta_inter**2 == pytest.approx(found.zeta_inter2.value)
    assert found.parameters(epsilon=0.1, convex=True).initial_error == found.R0_squared
    assert found.parameters(epsilon=0.1, initial_error=7).initial_error == 7
    assert np.isfinite(certified_rounds(x, "s2s", convex=False).rounds)


def test_remarks_tell_what_the_theory_does_not_cover():
    """Settings outside the theory are named."""
    extra = (
        "training.local_steps=2",
        "training.schedule=cosine",
        "training.sampling=epochs",
        "server.optimizer=fedavgm",
        "server.offset=1",
    )
    found = constants_of(bench(*extra), rounds=[0], draws=2)
    assert len(found.remarks) == 5
    others = (
        "server.selection=round_robin",
        "server.weights=data",
        "network.gossip_steps=2",
        "training.order=mix_then_adapt",
        "fleet.awake=0.9",
    )
    found = constants_of(bench(*others), rounds=[0], draws=2)
    assert len(found.remarks) == 4
    assert "round_robin sampling with data weights" in " ".join(found.remarks)
    assert found.parameters(epsilon=0.1).selection == "uniform"
    assert constants_of(bench(), rounds=[0], draws=2).remarks == ()


@pytest.mark.parametrize("field", ["sampled", "period"])
def test_what_moves_has_no_bounds(field, capsys):
    """The first K or H of a schedule is not that of the run."""
    extra = (f"server.{field}_schedule=step", f"server.{field}_end=2")
    found = constants_of(bench(*extra), rounds=[0], draws=2)
    assert found.remarks[0].endswith(f"(here server.{field}_schedule = 'step')")
    with pytest.raises(SkerryError, match="bounds hold for a K and an H that stay"):
        found.parameters(epsilon=0.1)
    print_constants(found)
    said = capsys.readouterr().out
    assert "No bounds: bounds hold for" in said
    assert "skerry theory bounds" not in said


def test_a_beta_that_moves_is_named():
    """Bounds are told their beta: they still have one."""
    moving = ("server.beta_schedule=cosine", "server.beta_end=0")
    found = constants_of(bench(*moving, "server.primitive=blend"), rounds=[0], draws=2)
    (remark,) = found.remarks
    assert remark == "the theory's beta stays as it is (here server.beta_schedule = 'cosine')"
    assert found.parameters(epsilon=0.1).sampled == 5
    assert constants_of(bench(*moving), rounds=[0], draws=2).remarks == ()


@pytest.mark.parametrize(
    ("settings", "sampling"),
    [
        ((), (5, "uniform", "equal")),
        (("server.selection=per_component",), (5, "per_component", "equal")),
        (("server.weights=stratified",), (5, "uniform", "stratified")),
        (("server.selection=bernoulli", "server.sample_prob=0.3"), (4, "bernoulli", "equal")),
    ],
)
def test_bounds_follow_the_servers_rule(settings, sampling):
    """The rule of selection goes from the experiment to the bounds, and to the command."""
    found = constants_of(bench("server.sampled=5", *settings), rounds=[0], draws=2)
    x = found.parameters(epsilon=0.1)
    assert (x.sampled, x.selection, x.weights) == sampling
    assert found.remarks == ()
    command = bounds_command(found)
    assert (f"--selection {x.selection}" in command) == (x.selection != "uniform")
    assert (f"--weights {x.weights}" in command) == (x.weights != "equal")


def test_wrong_input_is_explained():
    """Bad input is met with one line that says the rule."""
    world = bench()
    with pytest.raises(SkerryError, match="draws must be at least 2"):
        constants_of(world, rounds=[0], draws=1)
    with pytest.raises(SkerryError, match="rounds at least 0"):
        constants_of(world, rounds=[-1], draws=2)
    found = constants_of(world, rounds=[0], draws=2)
    with pytest.raises(SkerryError, match="must be known for a convex bound"):
        found.parameters(epsilon=0.1, convex=True)
    wild = bench("model.name=quadratic", "training.stepsize=1e200")
    with pytest.raises(SkerryError, match="diverged before round 8"):
        constants_of(wild, rounds=[8], draws=2)
