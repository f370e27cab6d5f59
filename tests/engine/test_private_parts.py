"""Private parts of models (`model.private`): they stay where they are, whatever is sent."""

import pytest
import torch

import skerry
from recorded_runs import PlugPulledError, assert_same, record
from skerry.advice.prediction import measure_in_time
from skerry.advice.question import Question, Timer, special_cases
from skerry.advice.settings import budget_of
from skerry.engine.round import initial_state, mix, run_server_rounds
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import SkerryError
from skerry.measure.observer import Observer
from skerry.models.layout import clear
from skerry.plugins import registry
from skerry.runs.memory import measure_footprint
from skerry.runs.variants import expand
from skerry.theory.constants import measure_constants
from trajectories import assert_same_trajectories

HEAD = ("model.name=mlp", "model.hidden=[5]", 'model.private=["3.*"]')
BIAS = ('model.private=["bias"]',)  # of the linear model, whose places do not lie side by side
METHODS = [name for name in registry.METHODS if name != "sgd"]
BLEND = "server.primitive=blend"
LANES = (
    *([f"server.primitive={name}"] for name in registry.PRIMITIVES),
    *([BLEND, f"server.optimizer={name}"] for name in registry.KINDS["server optimizer"]),
    *(
        [BLEND, f"network.compression={name}", f"server.compression={name}"]
        for name in ("top_k", "random_k", "int8")
    ),
    ["server.selection=importance", "server.primitive=s2a"],
    [BLEND, "server.beta_schedule=adaptive"],
    ["fleet.awake=0.5", "network.gossip_steps=2"],
    ["training.order=mix_then_adapt", "network.link_failure=0.3"],
    ["training.optimizer=adam", "training.weight_decay=0.1"],
    ["training.weights=data", "server.weights=data", BLEND],
)


def lanes_of(small, private, *more):
    """Lanes with all that is sent in one way or another."""
    base = small("server.sampled=6", "server.offset=2", *private, *more)
    return base, [*(base.with_settings(*lane) for lane in LANES), *expand(base, METHODS)]


@pytest.mark.parametrize("private", [HEAD, BIAS], ids=["head", "bias"])
def test_reference_equals_stack(small, private):
    """Servers, compressions, selections, schedules, local optimizers and all methods."""
    base, lanes = lanes_of(small, private)
    assert_same_trajectories(build_world(base, dtype=torch.float64), lanes, 1e-11)


def after_messages(stack, private_3):
    """All arrays after the messages of three rounds, from random numbers, where device 3 has
    `private_3` in its private parts; these are left out."""
    private, state = stack.world.private, initial_state(stack)
    random, companions = torch.Generator().manual_seed(0), state.companions.arrays
    for name, array in {"X": state.X_nld, **companions}.items():
        shared_only = stack.world.shared_d if name.startswith("compression") else 1
        array += torch.randn(array.shape, generator=random) * shared_only
        if array.ndim == 3 and not name.startswith("compression"):
            for parameter in private:
                parameter.of(array)[3] = private_3
    for t in range(3):
        state.t = t
        mix(stack, state, stack.etas_tl[t])
        run_server_rounds(stack, state)
    for array in (state.X_nld, *(one for one in companions.values() if one.ndim == 3)):
        clear(private, array[3])
    return {"X": state.X_nld, **companions, **state.memory}


@pytest.mark.parametrize("private", [HEAD, BIAS], ids=["head", "bias"])
def test_nobody_else_learns_of_a_private_part(small, private):
    """Whatever one device has there changes no other number, to the bit, when messages are sent."""
    base, lanes = lanes_of(small, private)
    stack = build_stack(build_world(base), lanes)
    one, two = (after_messages(stack, value) for value in (0.5, -40.0))
    assert len(one) > 20
    for name, array in one.items():
        assert torch.equal(array, two[name]), name


def test_s2s_keeps_the_average_of_what_is_shared_and_leaves_the_rest(small):
    """Mixing and S2S never move the shared average, nor any private part; S2A makes all share."""
    base = small(*HEAD, "server.period=1")
    lanes = [base.with_settings(f"server.primitive={name}") for name in ("s2a", "s2s")]
    stack = build_stack(build_world(base, dtype=torch.float64), lanes)
    state, world = initial_state(stack), stack.world
    state.X_nld += torch.randn(state.X_nld.shape, dtype=torch.float64)
    before = state.X_nld.clone()
    mix(stack, state, stack.etas_tl[0])
    run_server_rounds(stack, state)
    s2a, s2s = (stack.keys.index(world.key(lane)) for lane in lanes)
    for parameter in world.layout:
        was, now = parameter.of(before), parameter.of(state.X_nld)
        if parameter in world.private:
            assert torch.equal(was, now)
        else:
            assert torch.allclose(was[:, s2s].mean(dim=0), now[:, s2s].mean(dim=0), atol=1e-12)
            assert (now[:, s2a] == now[0, s2a]).all()
            assert not torch.equal(was[:, s2s], now[:, s2s])


def test_measures_and_bytes_are_of_what_is_shared(small):
    """Disagreement and bias of shared parts; the average model has the mean of private ones."""
    base = small(*HEAD, "network.compression=top_k", "server.primitive=s2a")
    lanes = [base, base.with_settings("network.compression=none", "server.compression=int8")]
    world = build_world(base, dtype=torch.float64)
    stack = build_stack(world, lanes)
    observer = Observer(stack)
    for moment in simulate(stack):
        X_nld = moment.state.X_nld
        before = X_nld.clone()
        rows = observer.rows(moment)
        assert torch.equal(X_nld, before), "a measure has changed the models"
    away = (X_nld - X_nld.mean(dim=0)) * world.shared_d
    losses = world.learner.test_loss(X_nld.mean(dim=0), world.x_test, world.y_test)
    assert world.shared_parameters == 6 * 5 + 5
    sizes = {"top_k": (140, 4 * 4 + 3), "none": (35 + 4, 140)}  # to the server, over links
    for lane, experiment in enumerate(stack.experiments):
        row = rows[stack.keys[lane]]
        assert row["disagreement"] == pytest.approx(float(away[:, lane].square().sum()) / 12)
        assert row["average_loss"] == pytest.approx(float(losses[lane]))
        up, d2d = sizes[experiment.network.compression]
        assert row["uplink_bytes"] == up * row["uplink_messages"] > 0
        assert row["d2d_bytes"] == d2d * row["d2d_messages"] > 0


def test_the_memory_of_a_server_knows_nothing_of_private_parts(small):
    """So an optimizer that looks at whole vectors, by their norm, sees shared parts alone."""
    base = small(*HEAD, "server.selection=importance")
    names = ("fedavgm", "fedadam", "fedyogi", "fedavgm_averages")
    lanes = [base.with_settings(f"server.optimizer={name}") for name in names]
    *_, last = simulate(build_stack(build_world(base), lanes))
    world = last.stack.world
    assert len(last.state.memory) > 4
    for array in last.state.memory.values():
        assert array.any()
        assert not any(parameter.of(array).any() for parameter in world.private)


def test_resumed_equals_uninterrupted_bit_for_bit(small, tmp_path):
    base = small(*HEAD, "server.offset=2")
    lanes = [*expand(base, ["s2a", "gradient_tracking", "scaffold", "fedprox"])]
    squeezed = ("network.compression=top_k", "server.compression=int8")
    lanes += [base.with_settings(*squeezed, "server.optimizer=fedadam")]
    whole = record(tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", lanes, 4)
    assert_same(record(tmp_path / "parts", lanes), whole)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["haed.*"], r"'haed\.\*' is no parameter of the model \(it has weight, bias\)"),
        (["bias", ""], "'' is no parameter"),
        (["weight", "b*"], r"must leave a parameter that devices share \(got \['weight', 'b\*'\]"),
    ],
)
def test_names_that_fit_no_model_are_refused(small, names, told):
    base = small()
    base = base.replace(model=skerry.Model(private=names))
    with pytest.raises(SkerryError, match=told):
        build_world(base)


def test_an_own_method_must_know_of_private_parts(small):
    """Unless it does nothing but local steps; then messages are as those of plain SGD."""
    base = small(*HEAD, "server.period=1")
    world = build_world(base)
    with pytest.raises(SkerryError, match=r"Averaging.*must say how it treats private parts"):
        build_stack(world, [base.with_settings("method.name=private_plugins:Averaging")])
    for method in ("private_plugins:AveragingShared", "good_plugins:HeavyBall"):
        stack = build_stack(world, [base.with_settings(f"method.name={method}")])
        *_, last = simulate(stack)
        for parameter in world.private:
            values = parameter.of(last.state.X_nld).flatten(2)
            assert (values[0] != values[1:]).any(dim=2).all()


def test_an_own_optimizer_may_write_anywhere(small):
    """What it writes into private places reaches no device and decides no selection."""
    base = small(*HEAD, "server.selection=importance", "server.primitive=s2a", "server.period=1")
    own = base.with_settings("server.optimizer=private_plugins:Shifted")
    found = []
    for experiment in (base, own):
        *_, last = simulate(build_stack(build_world(experiment), [experiment]))
        found.append(last.state.X_nld)
    assert torch.equal(*found)


def test_an_own_compression_may_write_anywhere(small):
    """What it writes into private places does not arrive, so that later messages have none of it
    either."""
    name = "private_plugins:Everywhere"
    base = small(*HEAD, f"network.compression={name}", f"server.compression={name}", BLEND)
    *_, last = simulate(build_stack(build_world(base), [base]))
    kept = last.state.companions.arrays
    assert len(kept) > 2
    for array in kept.values():
        assert array.any()
        assert not any(parameter.of(array).any() for parameter in last.stack.world.private)


def test_private_parts_are_part_of_a_world_and_of_its_memory(small):
    """Keys tell them apart; a plan has room for the copies that are set aside."""
    plain, private = small(*HEAD[:2]), small(*HEAD)
    assert plain.world_key() != private.world_key()
    assert plain.key() == plain.with_settings("model.private=[]").key()
    needs = [measure_footprint(build_world(e)).for_lanes([e]).need(100) for e in (plain, private)]
    assert needs[0] < needs[1] < 2 * needs[0]


def test_the_theory_is_about_models_that_are_shared_as_a_whole(small):
    with pytest.raises(SkerryError, match=r"share as a whole \(got model.private = \['bias'\]\)"):
        measure_constants(small(*BIAS), rounds=(0,), draws=2)


def test_advice_prices_what_is_shared_and_says_what_an_average_is(small):
    base = small(*HEAD)
    world, question = build_world(base), Question(bytes=4 * 35 * 100)
    assert budget_of(question, base, world).limit == 100  # messages
    notes = []
    assert measure_in_time(world, Timer(1e9), notes) is None
    assert "share as a whole" in notes[0]
    assert any("private parts" in note for note in special_cases(question, base, world))
