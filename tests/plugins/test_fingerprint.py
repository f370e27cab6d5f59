"""Fingerprints cover all that decides what a function given from Python computes."""

import collections
import enum
import functools
import importlib
import operator
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import skerry
from skerry.config.experiment import Experiment
from skerry.errors import SkerryError
from skerry.plugins.fingerprint import fingerprint_function, function_name
from skerry.plugins.registry import source_fingerprint


def holding(value):
    """A function whose closure holds the value."""

    def held(x):
        return value

    return held


class Slotted:
    __slots__ = ("strength",)

    def __init__(self, strength):
        self.strength = strength

    def __call__(self, x):
        return self.strength * x


@dataclass(slots=True)
class SlottedData:
    strength: float = 0.5
    more: list = field(default_factory=list)

    def __call__(self, x):
        return self.strength * x


class Holder:
    def __init__(self, part):
        self.part = part

    def rule(self, x):
        return self.part

    @functools.cached_property
    def doubled(self):
        return [self.part, self.part]

    __call__ = rule


class Meta(type):
    pass


def with_attributes(base=object, meta=type, **attributes):
    return holding(meta("Made", (base,), attributes))


def with_attribute(function, value):
    function.attribute = value
    return function


def empty_cell():
    def recursive(x):
        return later(x)

    if False:
        later = None
    return recursive


def module_with(weight):
    module = nn.Linear(2, 1)
    nn.init.constant_(module.weight, weight)
    nn.init.constant_(module.bias, 0.0)
    return module


def with_default(value):
    def mine(x, *, option=value):
        return option

    return mine


PAIRS = {
    "closure": lambda v: holding(v),
    "closure of a class": lambda v: holding((nn.Tanh, nn.ReLU)[v]),
    "closure of a lambda": lambda v: holding((lambda x: 1, lambda x: 2)[v]),
    "default": with_default,
    "partial": lambda v: functools.partial(holding(0), x=v),
    "partial of a held partial": lambda v: holding(functools.partial(int, v)),
    "function attribute": lambda v: with_attribute(holding(0), v),
    "slots": Slotted,
    "slotted dataclass": SlottedData,
    "list in a slotted dataclass": lambda v: SlottedData(more=[v]),
    "held object": lambda v: Holder(Holder(v)),
    "held slots": lambda v: Holder(Slotted(v)),
    "bound method": lambda v: Holder(v).rule,
    "bound method of a builtin": lambda v: holding([v].append),
    "callable class": lambda v: with_attributes(rule=v),
    "list as a class attribute": lambda v: with_attributes(rule=[v]),
    "array as a class attribute": lambda v: with_attributes(rule=np.array([v])),
    "dict as a class attribute": lambda v: with_attributes(rule={"a": v}),
    "function as a class attribute": lambda v: with_attributes(rule=holding(v)),
    "property": lambda v: with_attributes(rule=property(holding(v))),
    "cached property": lambda v: with_attributes(rule=functools.cached_property(holding(v))),
    "static method": lambda v: with_attributes(rule=staticmethod(holding(v))),
    "base class": lambda v: with_attributes(base=type("Base", (), {"rule": [v]})),
    "metaclass": lambda v: with_attributes(meta=type("M", (Meta,), {"rule": v})),
    "set": lambda v: holding({"a", "b", v}),
    "frozenset": lambda v: holding(frozenset({"a", v})),
    "dict": lambda v: holding({"a": 1, "b": v}),
    "nesting": lambda v: holding([[[1], 2], [[1, 2]]][v]),
    "repeated parts": lambda v: (lambda x, y: holding([x, y, (x, y)[v]]))([1], [2]),
    "ordered dict": lambda v: holding(collections.OrderedDict([("a", 1), ("b", 2)][:: 1 - 2 * v])),
    "counter": lambda v: holding(collections.Counter({"a": v + 1})),
    "deque": lambda v: holding(collections.deque([v])),
    "enum": lambda v: holding(list(enum.Enum("Colour", "RED BLUE"))[v]),
    "enum value": lambda v: holding(enum.Enum("Colour", {"RED": v}).RED),
    "path": lambda v: holding(Path(str(v))),
    "array": lambda v: holding(np.arange(3.0) + v),
    "type of an array": lambda v: holding(np.zeros(2, dtype=["f4", "i4"][v])),
    "object array": lambda v: holding(np.array([Slotted(v), None], dtype=object)),
    "masked array": lambda v: holding(np.ma.masked_array([1, 2], mask=[v, 0])),
    "numpy scalar": lambda v: holding(np.float32(v)),
    "numpy generator": lambda v: holding(np.random.default_rng(v)),
    "ufunc": lambda v: holding((np.add, np.multiply)[v]),
    "tensor": lambda v: holding(torch.tensor([v])),
    "bfloat16": lambda v: holding(torch.tensor([v], dtype=torch.bfloat16)),
    "torch type": lambda v: holding((torch.float32, torch.float64)[v]),
    "nn.Module": lambda v: holding(module_with(float(v))),
    "activation": lambda v: holding(nn.Sequential((nn.Tanh(), nn.ReLU())[v])),
    "itemgetter": lambda v: holding(operator.itemgetter(v)),
    "lru_cache": lambda v: holding(functools.lru_cache(holding(v))),
    "named tuple": lambda v: holding(collections.namedtuple("Point", "x")(v)),
    "builtin": lambda v: holding((torch.relu, torch.tanh)[v]),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_fingerprint_covers_what_a_function_holds(kind):
    """Equal content gives equal names, made anew; other content another name."""
    make = PAIRS[kind]
    assert function_name(make(0)) == function_name(make(0)) != function_name(make(1))


def test_recursion_and_empty_cells_have_fingerprints():
    cycle = []
    cycle.append(cycle)

    def itself(x):
        return itself(x)

    for made in (holding(cycle), itself, empty_cell()):
        assert fingerprint_function(made) == fingerprint_function(made)


def test_values_computed_from_others_do_not_count():
    """An object that has filled a cached property is still the same."""
    used = Holder(1)
    assert used.doubled
    assert fingerprint_function(used) == fingerprint_function(Holder(1))


def test_attributes_are_not_taken_for_globals():
    """A function that uses `torch.log` does not hold the global `log`."""
    space = {"__name__": "__main__", "torch": torch, "log": threading.Lock()}
    exec("def mine(x):\n    return torch.log(x)\n", space)
    assert fingerprint_function(space["mine"])


def generator():
    yield 1


@pytest.mark.parametrize(
    "held",
    [
        lambda: open(__file__),  # noqa: SIM115
        threading.Lock,
        generator,
        lambda: Holder(threading.Lock()),
        lambda: np.frompyfunc(abs, 1, 1),
    ],
    ids=["file", "lock", "generator", "held lock", "own ufunc"],
)
def test_what_has_no_content_is_refused(held):
    """In one line with the cure: a version, by which the user tells it apart."""
    made = holding(held())
    with pytest.raises(SkerryError, match=r"cannot be told apart.*value.*held\.version = '1'") as e:
        skerry.Server(primitive=made)
    assert "\n" not in str(e.value)
    names = set()
    for version in ("1", "2"):
        made.version = version
        names.add(function_name(made))
    assert len(names) == 2


def test_factories_of_models_have_fingerprints(small, tmp_path):
    """Two factories of one outer function, Tanh and ReLU, are two runs; a lock is refused."""

    def factory(activation):
        def net(problem):
            return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), activation())

        return net

    def run(**options):
        return skerry.run(small("rounds=1"), out=tmp_path, **options)[0]

    tanh, relu = run(model=factory(nn.Tanh)), run(model=factory(nn.ReLU))
    assert tanh.key != relu.key
    assert tanh.final != relu.final
    assert run(model=factory(nn.Tanh)).key == tanh.key
    assert run(model=factory(nn.Tanh), workers=1, executor="processes").key == tanh.key
    lock = threading.Lock()
    with pytest.raises(SkerryError, match="cannot be told apart"):
        run(model=lambda problem: (lock, nn.Linear(6, 4))[1])


SCRIPT = """
import enum
from skerry.plugins.fingerprint import function_name
words = {"one", "two", "three", ("four", 5)}
table = {word: {word} for word in words}
class Rule(enum.Enum):
    A = frozenset({"x", "y", "z"})
class Mine:
    names = words
    def __call__(self, x):
        return x in {"p", "q", "r"}
def outer():
    def mine(x, option=frozenset(words)):
        return words, table, Rule.A, x in {"s", "t", "u"}
    return mine, lambda x: x in {"s", "t", "u"}
print(*map(function_name, (Mine(), *outer())))
"""


def test_every_process_gives_the_same_fingerprint():
    """Whatever the order of its sets."""
    names = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    ]
    assert names[0] == names[1] == names[2] != ""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write modules of the user and forget those that were loaded."""
    monkeypatch.syspath_prepend(tmp_path)
    ours = ("mine_fp", "helpers_fp", "lazy_fp", "package_fp")

    def forget():
        importlib.invalidate_caches()
        for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
            del sys.modules[name]

    def write(**files):
        for name, text in files.items():
            file = tmp_path / f"{name.replace('0', '/')}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        forget()

    yield write
    forget()


def test_modules_of_the_user_count_with_what_they_import(write):
    """Also inside functions and packages; without such imports only its own file counts."""
    write(mine_fp="import torch\nhalf = 0.5\n", helpers_fp="A = 1\n")
    alone = source_fingerprint("mine_fp:half")
    write(mine_fp="import torch\nhalf = 0.5\n", helpers_fp="A = 2\n")
    assert source_fingerprint("mine_fp:half") == alone

    text = (
        "from helpers_fp import A\nfrom package_fp.inner import C\n"
        "def half(x):\n    import lazy_fp\n    return lazy_fp.B\n"
    )
    files = {
        "mine_fp": text,
        "helpers_fp": "A = 1\n",
        "lazy_fp": "B = 1\n",
        "package_fp0__init__": "D = 1\n",
        "package_fp0inner": "from . import deep\nC = deep.E\n",
        "package_fp0deep": "E = 1\n",
    }
    hashes = set()
    for edited in (None, *files):
        changed = {name: one + "# edited\n" * (name == edited) for name, one in files.items()}
        write(**changed)
        hashes.add(source_fingerprint("mine_fp:half"))
        assert source_fingerprint("mine_fp:half") in hashes
    assert len(hashes) == 1 + len(files)


def test_given_functions_count_with_the_users_own_modules(write):
    """Functions and modules of other files of the user, and values set after the import."""

    def name():
        helpers = importlib.import_module("helpers_fp")
        values = {"helpers_fp": helpers, "rule": helpers.rule, "__name__": "__main__"}
        exec("def mine(x):\n    return rule(x) * helpers_fp.A\n", values)
        return function_name(values["mine"])

    write(helpers_fp="A = 1\ndef rule(x):\n    return 1\n")
    first = name()
    assert name() == first
    importlib.import_module("helpers_fp").A = 3
    assert name() != first
    write(helpers_fp="A = 1\ndef rule(x):\n    return 2\n")
    assert name() != first


def test_an_edit_after_the_import_is_not_what_runs(write, tmp_path):
    """The key is that of the code which was loaded, until the module is loaded again."""
    write(mine_fp="def half(X, sampled, delivered):\n    return 1\n")
    key = Experiment.parse({}, ["server.primitive=mine_fp:half"]).key()
    (tmp_path / "mine_fp.py").write_text("def half(X, sampled, delivered):\n    return 22\n")
    assert Experiment.parse({}, ["server.primitive=mine_fp:half"]).key() == key
    importlib.reload(sys.modules["mine_fp"])
    assert Experiment.parse({}, ["server.primitive=mine_fp:half"]).key() != key


PLUGIN = """
import functools
K = 0.5
COUNT = 0
def twice(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x) + {wrapper}
    return wrapper
@twice
def one(x, y=1, *, z=2):
    return x + 1
class Two:
    def __init__(self, rate={rate}):
        self.rate = rate
    @property
    def part(self):
        return {part}
    @functools.cached_property
    def other(self):
        return [y for y in (1, 2) if y in {{"a", "b"}}]
exec("def made(x):\\n    return 1")
def half(X, sampled, delivered, context):
    global COUNT
    COUNT += 1
    return {half}
"""


def test_an_edit_between_import_and_first_key_is_refused(write, tmp_path, small):
    """The code in memory would be recorded under the key of the edited file."""
    now = {"wrapper": 1, "part": 1, "half": "K", "rate": 0.5}
    experiment = small("rounds=1")
    for change in ({}, {"wrapper": 2}, {"part": 2}, {"half": "K * 2"}, {"rate": 1}):
        write(mine_fp="import helpers_fp\n" + PLUGIN.format(**now), helpers_fp=PLUGIN.format(**now))
        mine = importlib.import_module("mine_fp")
        edited = "# a comment\n" + PLUGIN.format(**{**now, **change})
        (tmp_path / "helpers_fp.py").write_text(edited)
        if not change:
            assert experiment.with_settings("server.primitive=mine_fp:half").key()
            continue
        with pytest.raises(SkerryError, match=r"helpers_fp.py was edited after it was imported"):
            experiment.with_settings("server.primitive=mine_fp:half").key()
        importlib.reload(mine.helpers_fp)
        assert experiment.with_settings("server.primitive=mine_fp:half").key()


def test_a_value_that_is_set_after_the_import_is_refused(write, small, tmp_path):
    """Runs with it would be recorded under the key of the file, which says another value."""
    text = "def half(X, sampled, delivered):\n    global N\n    N += 1\n    X.lerp_(delivered, 1)\n"
    text = f"import helpers_fp\nN = 0\nL = []\n{text}    return len(X)\n"
    write(mine_fp=text, helpers_fp="K = 0.5\nM = (1, 2)\n")
    experiment = small("rounds=1", "server.primitive=mine_fp:half")
    assert skerry.run(experiment)[0].status == "finished"
    helpers, mine = sys.modules["helpers_fp"], sys.modules["mine_fp"]
    assert mine.N > 0
    mine.L.append(1)
    for name, other in (("K", 0.9), ("K", True), ("K", [1]), ("M", (1, 2.0))):
        kept = getattr(helpers, name)
        setattr(helpers, name, other)
        with pytest.raises(SkerryError, match=rf"helpers_fp\.{name} is .* but helpers_fp.py says"):
            skerry.run(experiment, out=tmp_path / "runs")
        setattr(helpers, name, kept)
    assert skerry.run(experiment)[0].status == "finished"


def test_workers_do_not_import_an_edited_file_again(write, small, tmp_path):
    """They would compute with its new text, under the key of the text that was imported."""
    text = "def half(X, sampled, delivered):\n    X.lerp_(delivered, {})\n    return len(X)\n"
    write(mine_fp=text.format(0.9))
    experiment = small("rounds=1", "server.primitive=mine_fp:half")
    experiment.key()
    (tmp_path / "mine_fp.py").write_text(text.format(0.1))
    with pytest.raises(SkerryError, match=r"mine_fp.py was edited .* workers import it again"):
        skerry.run(experiment, workers=2)
    assert skerry.run(experiment)[0].status == "finished"


def test_a_module_without_a_file_goes_by_its_content(monkeypatch):
    """A function of it has no source that could be compared by name."""
    made = type(sys)("made_up_fp")
    for value in (1, 2):
        exec(f"def mine(X, sampled, delivered):\n    return {value}\n", vars(made))
        monkeypatch.setitem(sys.modules, "made_up_fp", made)
        made.mine.__module__ = "made_up_fp"
        assert function_name(made.mine).startswith("given:mine@")
    with pytest.raises(SkerryError, match="cannot be told apart"):
        Experiment.parse({}, ["server.primitive=made_up_fp:mine"]).key()


def test_planning_many_runs_reads_a_source_once(write, monkeypatch):
    write(
        mine_fp="import helpers_fp\ndef half(X, sampled, delivered):\n    return 1\n",
        helpers_fp="A = 1\n",
    )
    base = Experiment.parse({}, ["server.primitive=mine_fp:half"])
    base.key()
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read again"))
    monkeypatch.setattr(
        "importlib.machinery.SourceFileLoader.get_data",
        lambda loader, path: pytest.fail(f"{path} is read again"),
    )
    assert len({base.with_settings(f"seed={seed}").key() for seed in range(20)}) == 20
