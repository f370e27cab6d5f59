"""Write docs/reference.md: all public names of `skerry`, with docstrings and executed examples."""

import inspect
from pathlib import Path
from typing import Any

import skerry
from skerry.config.experiment import Section

PAGE = Path(__file__).parent / "reference.md"

HEAD = """\
# Reference

<!-- This page is written by `python docs/generate.py`. -->

This page lists all public names of `skerry`. The examples share one small experiment, and record
runs in the folder `runs`.

```python
import numpy as np

import skerry

small = skerry.Experiment(
    rounds=4,
    network=skerry.Network(devices=8),
    training=skerry.Training(batch=16),
    server=skerry.Server(sampled=3, period=2),
)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(240, 5)), rng.integers(0, 3, 240)
```
"""

PARTS = {
    "Running": ("run", "advise", "Results", "Lane", "Advice", "Progress", "SkerryError"),
    "Records": ("load", "finals", "results", "devices", "write_report"),
    "Experiments": (
        "Experiment", "Sweep", "Network", "Data", "Task", "Model", "Training", "Server",
        "Availability", "ClockChoice", "MethodChoice", "Evaluate"
    ),
    "Your own data": (
        "from_arrays", "from_devices", "from_torch", "from_huggingface", "from_flower",
        "load_dataset", "split"
    ),
    "Your own functions": (
        "Context", "Parameter", "Problem", "Method", "Lanes", "Mixing", "Aggregation", "Traffic",
        "Compression", "Here"
    ),
    "Presets and constants": ("PRESETS", "with_preset", "measure_constants"),
}  # fmt: skip

EXAMPLES = {
    "run": 'found = skerry.run(small, compare=["s2s", "s2a"], seeds=2, out="runs")\nprint(found)',
    "advise": "advice = skerry.advise(small, seeds=2, stepsizes=[0.1], minutes=0.05)\n"
    "print(advice.recommendation['primitive'] in ('none', 's2s', 's2a', 'blend'))",
    "Results": 'print(found.labels(), found.final("uplink_messages"))\n'
    'found.plot("curves").save("curves.png")\n'
    'table = found.summary("average_accuracy", "own_accuracy")',
    "Lane": 'lane = found[0]\nprint(lane.label, lane.status, len(lane.history["round"]))',
    "Advice": "print(advice.goal, len(advice.lines()) > 2)",
    "Progress": "class Rounds(skerry.Progress):\n"
    "    def moment(self, moment):\n"
    '        if moment.phase == "end":\n'
    "            print(moment.round, end=' ')\n\n\n"
    "_ = skerry.run(small, progress=Rounds())",
    "SkerryError": "try:\n    skerry.Server(period=0)\nexcept skerry.SkerryError as error:\n"
    "    print(error)",
    "load": 'rounds = skerry.load("runs")\nprint(rounds.groupby("primitive")["round"].max())',
    "finals": 'print(len(skerry.finals("runs")), "runs")',
    "results": 'answers = skerry.results("runs", "own_accuracy")\nprint(answers.against)',
    "devices": 'print(len(skerry.devices("runs").frame), "rows")',
    "write_report": 'skerry.write_report("runs", "page.html")',
    "Experiment": 'other = small.replace(rounds=8, server={"period": 4})\n'
    'print(other.key() != small.key(), other.with_settings("rounds=2").rounds)\n'
    "assert skerry.Experiment.from_toml(other.to_toml()) == other",
    "Sweep": 'sweep = skerry.Sweep(experiment=small, axes={"server.period": [1, 2]}, seeds=2)\n'
    "print(len(sweep.runs()))",
    "Network": 'print(skerry.Network(devices=8, components=[3, 5], topology="complete").sizes)',
    "Data": 'print(skerry.Data(dataset="synthetic", samples=200, inter="iid"))',
    "Task": 'print(skerry.Task(name="regression", loss="huber", delta=0.5))',
    "Model": 'print(skerry.Model(name="mlp", hidden=16))',
    "Training": 'print(skerry.Training(optimizer="adam", stepsize=0.01))',
    "Server": 'print(skerry.Server(primitive="blend", beta=0.25).label)',
    "ClockChoice": 'timed = small.replace(clock=skerry.ClockChoice(file="wifi_home"))\n'
    'print(skerry.run(timed).final("seconds"))',
    "Availability": "print(skerry.Availability(awake=0.9).sleeps)",
    "MethodChoice": 'print(skerry.MethodChoice(name="fedprox", mu=0.5))',
    "Evaluate": 'print(skerry.Evaluate(every=5, measures=["average", "consensus"]))',
    "from_arrays": "mine = skerry.from_arrays(x[40:], y[40:], x[:40], y[:40])\n"
    "print(skerry.run(small, dataset=mine)[0].status)",
    "from_devices": "parts = {f'device {i}': (x[i::8], y[i::8]) for i in range(8)}\n"
    "held = skerry.from_devices(parts, test=(x[:40], y[:40]))\n"
    "print(skerry.run(small, dataset=held)[0].status)",
    "from_torch": "import torch\nfrom torch.utils.data import TensorDataset\n\n"
    "data = TensorDataset(torch.tensor(x), torch.tensor(y))\n"
    "print(skerry.run(small, dataset=skerry.from_torch(data, data))[0].status)",
    "from_huggingface": "print(callable(skerry.from_huggingface))",
    "from_flower": "print(callable(skerry.from_flower))",
    "load_dataset": 'digits = skerry.load_dataset(skerry.Data(dataset="digits"), seed=0)\n'
    "print(digits.x_train.shape)",
    "split": "labels, data = digits.y_train, skerry.Data()\n"
    "dealt = skerry.split(labels, digits.classes, sizes=(4, 4), data=data, seed=0)\n"
    "print(dealt.sizes.sum() == len(labels))",
    "Context": "def fading(X_nld, sampled_k, delivered_ld, *, context):\n"
    "    X_nld.lerp_(delivered_ld, 1 / (1 + context.number))\n"
    "    return len(X_nld)\n\n\n"
    "print(skerry.run(small, compare=[fading])[0].status)",
    "Parameter": "def last_norm(models, context):\n"
    "    last = context.parameters[-1]\n"
    "    return last.of(models).norm()\n\n\n"
    'print(skerry.run(small.replace(evaluate={"own": last_norm}))[0].final["last_norm"] > 0)',
    "Problem": "from math import prod\n\nfrom torch import nn\n\n\n"
    "def flat(problem: skerry.Problem):\n"
    "    layer = nn.Linear(prod(problem.input_shape), problem.outputs)\n"
    "    return nn.Sequential(nn.Flatten(), layer)\n\n\n"
    "print(skerry.run(small, model=flat)[0].status)",
    "Method": "class Clipped(skerry.Method):\n"
    "    def after_step(self, lanes, before):\n"
    "        lanes.X_nld.clamp_(-1, 1)\n\n\n"
    'print(skerry.run(small.replace(method={"name": Clipped}))[0].status)',
    "Lanes": "class Shrunk(skerry.Method):\n"
    "    def after_step(self, lanes: skerry.Lanes, before):\n"
    "        lanes.X_nld.mul_(1 - 0.01 * lanes.eta_l1)\n\n\n"
    'print(skerry.run(small.replace(method={"name": Shrunk}))[0].status)',
    "Mixing": "class Twice(skerry.Method):\n"
    "    mixed_arrays = 2\n\n"
    "    def mix(self, lanes, mix: skerry.Mixing):\n"
    "        mix(lanes.X_nld)\n"
    "        mix(lanes.X_nld)\n\n\n"
    'print(skerry.run(small.replace(method={"name": Twice}))[0].status)',
    "Aggregation": "class Sent(skerry.Method):\n"
    "    def aggregate(self, lanes, server: skerry.Aggregation):\n"
    "        received = server.deliver(lanes.X_nld)\n"
    "        return skerry.Traffic(up=len(server.sampled_k), down=received)\n\n\n"
    'print(skerry.run(small.replace(method={"name": Sent}))[0].status)',
    "Traffic": "print(skerry.Traffic(up=3, down=8))",
    "Compression": "class Half(skerry.Compression):\n"
    "    quality = 0.5\n\n"
    "    def compress(self, V_rld, draws):\n"
    "        V_rld.mul_(0.5)\n\n\n"
    'print(skerry.run(small.replace(network={"compression": Half}))[0].status)',
    "Here": "class Announced(skerry.Here):\n"
    '    """Computes in this process."""\n\n\n'
    "print(skerry.run(small, executor=Announced)[0].status)",
    "PRESETS": "print(sorted(skerry.PRESETS)[:3])",
    "with_preset": 'print(skerry.with_preset(small, "tt_hf").server.selection)',
    "measure_constants": "constants = skerry.measure_constants(small, rounds=(0, 2), draws=2)\n"
    "print(constants.parameters(epsilon=0.5).devices)",
}


def rendered() -> str:
    lines = [HEAD]
    for part, names in PARTS.items():
        lines += [f"## {part}", ""]
        for name in names:
            lines += [f"### {name}", "", *_entry(name), ""]
    return "\n".join(lines)


def _entry(name: str) -> list[str]:
    thing = getattr(skerry, name)
    lines = [_text(thing), ""]
    if inspect.isfunction(thing):
        lines += [_arguments(thing)]
    elif not isinstance(thing, type):
        pass
    elif issubclass(thing, Section):
        lines += [_fields(thing)]
        lines += [_methods(thing)] if name in ("Experiment", "Sweep") else []
    else:
        fields = getattr(thing, "__dataclass_fields__", {})
        told = ", ".join(f"`{field}`" for field in fields)
        lines += [f"It has: {told}.", ""] if told else []
        lines += [_methods(thing)]
    return [*lines, f"```python\n{EXAMPLES[name]}\n```"]


def _text(thing: Any) -> str:
    """A docstring as paragraphs; one that is indented is code."""
    text = inspect.cleandoc(thing.__doc__ or "")
    blocks = []
    for block in text.split("\n\n"):
        is_code = block.startswith(("class ", "def "))
        blocks.append(f"```text\n{block}\n```" if is_code else " ".join(block.split()))
    return "\n\n".join(blocks)


def _arguments(function: Any) -> str:
    rows = [
        (f"`{one.name}`", _type(one.annotation), _default(one.default))
        for one in inspect.signature(function).parameters.values()
    ]
    return _table(("argument", "type", "default"), rows)


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for long in ("collections.abc.", "pathlib.", "typing.", "skerry.config.experiment.", "~"):
        text = text.replace(long, "")
    text = ".".join(text.split("skerry.")[:1]) + "".join(
        part.rpartition(".")[2] if "." in part else part for part in text.split("skerry.")[1:]
    )
    return f"`{text}`".replace("|", "\\|")


def _default(default: Any) -> str:
    return "required" if default is inspect.Parameter.empty else f"`{default!r}`"


def _fields(section: type[Section]) -> str:
    rows = [
        (f"`{name}`", " ".join(section.describe(name).split()).replace("|", "\\|"))
        for name in section.model_fields
    ]
    return _table(("argument", "meaning"), rows)


def _methods(thing: type) -> str:
    rows = [
        (f"`{name}{_signature(member)}`", _first_sentence(member))
        for name, member in vars(thing).items()
        if not name.startswith("_") and _is_told(member)
    ]
    return _table(("method", "what it gives"), rows) if rows else ""


def _is_told(member: Any) -> bool:
    found = getattr(member, "__func__", member)
    return (inspect.isfunction(found) or isinstance(member, property)) and bool(found.__doc__)


def _signature(member: Any) -> str:
    if isinstance(member, property):
        return ""
    names = [
        ("*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else "")
        + one.name
        for one in inspect.signature(getattr(member, "__func__", member)).parameters.values()
    ]
    return f"({', '.join(name for name in names if name not in ('self', 'cls'))})"


def _first_sentence(member: Any) -> str:
    text = " ".join(inspect.cleandoc(getattr(member, "__func__", member).__doc__).split())
    return text.replace("|", "\\|")


def _table(titles: tuple[str, ...], rows: Any) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
