"""Functions given from Python where an experiment has a name."""

import functools
import threading

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

import skerry
from good_plugins import half_a_blend
from skerry.errors import SkerryError
from skerry.methods.method import Method
from skerry.plugins import fingerprint
from skerry.records.store import Store


def halfway(strength=0.5):
    def halfway(X_nld, sampled_k, delivered_ld):
        X_nld.lerp_(delivered_ld, strength)
        return len(X_nld)

    return halfway


def wheels():
    def wheel(size):
        return nx.wheel_graph(size)

    return wheel


def methods():
    class Twice(Method):
        """Every local step goes twice as far."""

        def __init__(self, *, factor=2.0):
            self.factor = factor

        def before_step(self, lanes):
            return lanes.X_nld.clone()

        def after_step(self, lanes, before):
            torch.lerp(before, lanes.X_nld.clone(), self.factor, out=lanes.X_nld)

    return Twice


def optimizers():
    class Steady:
        @staticmethod
        def start(x0_ld):
            return {"sum": torch.zeros_like(x0_ld), "count": torch.zeros_like(x0_ld)}

        @staticmethod
        def deliver(memory, average_ld):
            memory["sum"] += average_ld
            memory["count"] += 1
            return memory["sum"] / memory["count"]

    return Steady


GIVEN = {
    "server.primitive": lambda: halfway(),
    "server.selection": lambda: lambda context: context.order[: context.sampled],
    "server.sampled_schedule": lambda: lambda context: 2 + context.number % 2,
    "server.optimizer": optimizers,
    "network.topology": wheels,
    "network.mixing": lambda: lambda graph: np.full((len(graph), len(graph)), 1 / len(graph)),
    "training.schedule": lambda: lambda context: 1 / (context.round + 1),
    "method.name": methods,
    "model.name": lambda: (
        lambda problem: nn.Linear(int(np.prod(problem.input_shape)), problem.classes)
    ),
    "task.loss": lambda: lambda outputs, targets: nn.functional.cross_entropy(outputs, targets),
    "task.score": lambda: lambda outputs, targets: outputs.amax(dim=-1).mean(),
}


def placed(experiment, field, function):
    section, _, name = field.partition(".")
    changes = {name: function}
    if field == "network.mixing":
        changes["topology"] = "complete"
    return experiment.replace(**{section: changes})


@pytest.mark.parametrize("field", GIVEN)
def test_every_field_with_a_name_takes_a_function(small, field):
    """And the same function, made anew, is the same run."""
    experiment = placed(small("rounds=2"), field, GIVEN[field]())
    again = placed(small("rounds=2"), field, GIVEN[field]())
    assert experiment.key() == again.key() != small("rounds=2").key()
    section, _, name = field.partition(".")
    assert fingerprint.is_function_name(getattr(getattr(experiment, section), name))
    (lane,) = skerry.run(experiment)
    assert lane.status == "finished"


def test_sections_take_functions(small):
    function = halfway()
    assert skerry.Server(primitive=function) == skerry.Server().model_copy(
        update={"primitive": fingerprint.function_name(function)}
    )


def test_a_function_of_a_module_goes_by_the_modules_name(small):
    """So that its record can be run again from a file."""
    by_name = small("server.primitive=good_plugins:half_a_blend")
    assert small().replace(server={"primitive": half_a_blend}).key() == by_name.key()


def test_compare_takes_functions(small):
    mine, other = halfway(), halfway(0.25)
    results = skerry.run(small("rounds=2"), compare=["s2s", mine, other])
    assert len(results) == 3
    assert results.labels()[0] == "s2s"
    assert all(label.startswith("halfway@") for label in results.labels()[1:])
    assert results.of(mine)[0].label == results.labels()[1]
    assert results.of(mine).final("disagreement") < results.of(other).final("disagreement")
    with pytest.raises(SkerryError, match="unknown primitive 'halfway'"):
        results.of("halfway")
    alone = skerry.run(small("rounds=2"), compare=mine)
    assert alone.of("halfway")[0].key == results.of(mine)[0].key


def test_what_a_function_holds_is_part_of_its_source():
    """Closures, defaults, arrays and the arguments of a partial."""
    weights = np.arange(3.0)

    def of(weights, power=1):
        return lambda context, power=power: weights**power

    names = [
        fingerprint.function_name(one)
        for one in (
            of(weights),
            of(weights + 1),
            of(weights, 2),
            functools.partial(of(weights), power=3),
            functools.partial(of(weights), power=4),
            of(torch.arange(3)),
            of(torch.arange(4)),
        )
    ]
    assert len(set(names)) == len(names)
    assert fingerprint.function_name(of(weights.copy())) == names[0]


def test_two_lambdas_in_one_line_are_two_functions():
    first, second = lambda t: 0.5, lambda t: 0.25
    assert fingerprint.function_name(first) != fingerprint.function_name(second)


def test_a_helper_beside_a_function_is_part_of_it():
    """What is typed into a notebook is in no file: its functions see each other by name."""

    def typed(factor):
        space = {"__name__": "__main__", "FACTOR": factor}
        exec("def helper():\n    return FACTOR\n\ndef mine(t):\n    return helper() * t\n", space)
        return fingerprint.function_name(space["mine"])

    assert typed(1) == typed(1) != typed(2)


def test_a_record_tells_the_function(small, tmp_path):
    """By its name and source; where it is not at hand, a line tells what was given."""
    results = skerry.run(small("rounds=2"), compare=["s2s", halfway()], out=tmp_path)
    name = fingerprint.function_name(halfway())
    with Store.read(tmp_path) as store:
        assert {run.experiment.server.primitive for run in store.runs()} == {"s2s", name}
    assert name in set(skerry.load(tmp_path)["primitive"])
    text = results.of("halfway")[0].experiment.to_toml()
    assert skerry.Experiment.from_toml(text).key() == results.of("halfway")[0].experiment.key()
    with pytest.raises(SkerryError) as error:
        skerry.Experiment.from_toml(text.replace(name, "given:halfway@0123456789ab"))
    assert "was the function halfway (source 0123456789ab), given from Python" in str(error.value)
    assert str(error.value).count("\n") == 0


def test_a_sweep_has_functions_on_its_axes(small):
    grid = skerry.Sweep(
        experiment=small("rounds=2"), axes={"server.primitive": ["s2s", halfway(), half_a_blend]}
    )
    assert len(skerry.run(grid)) == 3


@pytest.mark.parametrize("executor", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
def test_functions_travel_to_workers(small, executor):
    experiment = placed(small("rounds=2"), "network.topology", wheels())
    here = skerry.run(experiment, compare=["s2s", halfway()])
    there = skerry.run(experiment, compare=["s2s", halfway()], executor=executor, workers=1)
    assert [lane.key for lane in there] == [lane.key for lane in here]
    assert [lane.final["average_loss"] for lane in there] == pytest.approx(
        [lane.final["average_loss"] for lane in here]
    )


def test_what_cannot_travel_is_told(small):
    lock = threading.Lock()

    def locked(X_nld, sampled_k, delivered_ld):
        with lock:
            return len(X_nld)

    locked.version = "1"
    with pytest.raises(SkerryError, match="cannot be sent to workers: locked@") as error:
        skerry.run(small("rounds=2"), compare=["s2s", locked], executor="processes", workers=1)
    assert str(error.value).count("\n") == 0


def test_a_module_itself_is_no_model(small):
    with pytest.raises(SkerryError, match=r"returns a new nn\.Module"):
        skerry.Model(name=nn.Linear(3, 2))


def test_an_executor_and_a_tracker_may_be_classes(small, tmp_path):
    from skerry.runs.executors.here import Here

    told = []

    class Polite(Here):
        pass

    class Diary:
        def __init__(self, folder):
            self.folder = folder

        def rows(self, run, columns):
            pass

        def finish(self, run, status, final):
            told.append(status)

        def close(self):
            pass

    skerry.run(small("rounds=2"), out=tmp_path, executor=Polite, trackers=[Diary])
    assert told == ["finished"]


def test_advice_takes_a_selection_of_ones_own():
    from skerry.advice.question import read_among

    function = GIVEN["server.selection"]()
    among = read_among(["s2s", function])
    assert among.selections == (fingerprint.function_name(function),)


def test_a_function_that_changes_after_the_experiment_was_built_is_refused(small, tmp_path):
    """It would compute with the new value and be recorded under the key of the old one."""
    held = {"strength": 0.9}

    def mine(X_nld, sampled_k, delivered_ld):
        X_nld.lerp_(delivered_ld, held["strength"])
        return len(X_nld)

    one = small("rounds=1").replace(server={"primitive": mine})
    sweep = skerry.Sweep(experiment={**one.model_dump()}, axes={"server.primitive": [mine, "s2s"]})
    held["strength"] = 0.1
    for asked in (one, sweep, [one, small("rounds=1")]):
        with pytest.raises(SkerryError, match="the function mine has changed since the exp"):
            skerry.run(asked, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    again = one.replace(server={"primitive": mine})
    assert again.key() != one.key()
    assert skerry.run(again)[0].status == "finished"
