"""Descriptions of experiments in words."""

from collections.abc import Collection, Sequence

from skerry.analysis.results import Results
from skerry.config.experiment import Data, Experiment, Server
from skerry.config.labels import command_line_label
from skerry.config.measures import task_of
from skerry.config.toml import setting
from skerry.errors import SkerryError, skerry_command
from skerry.files import typed_here, written
from skerry.plugins.registry import GIVEN, is_given
from skerry.report.text import plural
from skerry.runs.variants import expand

_PLURALS = {
    **{name: f"{name}s" for name in ("ring", "path", "star", "grid")},
    **{"torus": "tori", "complete": "complete graphs"},
}
FROM_PYTHON = ("network.topology", "data.dataset", "model.name", "model.weights")
BY_DEVICE = "as stored on the devices"
_TASKS = {"regression": ("regression", "mse"), "tokens": ("next tokens", "cross_entropy")}
"""Names of tasks and their usual losses. Classification, the usual case, is not named."""


def rerun_command(
    experiments: Sequence[Experiment],
    name: str = "run",
    settings: Sequence[str] = (),
    compare: Sequence[str] = (),
    **options: object,
) -> str:
    """The command that runs recorded experiments again with further options. Empty if they differ
    in more than seed and primitive, or if their data or code came from Python."""
    first = min(experiments, key=lambda one: one.seed)
    own = {"server.primitive": first.server.primitive}  # also if it is the default
    for section, value in first.model_dump(exclude_defaults=True).items():
        inside = value.items() if isinstance(value, dict) else [("", value)]
        own |= {f"{section}.{field}".rstrip("."): one for field, one in inside if one is not None}
    own |= {path: typed_here(text) for path, text in first.paths().items() if path in own}
    servers = (one.server for one in experiments)
    named = (s.name or command_line_label(s.primitive, s.beta) for s in servers)
    labels = list(dict.fromkeys([*named, *compare]))
    compared = labels if len(labels) > 1 else []
    seeds = 1 + max(one.seed for one in experiments) - first.seed
    # A user's own code is not imported to read what it has recorded.
    foreign = GIVEN in map(own.get, FROM_PYTHON) or any(list(e.users_own()) for e in experiments)
    given = [setting(path, value) for path, value in own.items()]
    if foreign or len(experiments) > seeds * len(labels):
        return ""
    try:
        planned = {run.key() for run in expand(Experiment.parse({}, given), compared, seeds)}
    except SkerryError:
        return ""
    if not planned.issuperset(one.key() for one in experiments):
        return ""
    options = {"compare": ",".join(compared) or None, "seeds": seeds, **options}
    return skerry_command(name, settings=[*given, *settings], **options)


def describe_task(experiment: Experiment, measured: Collection[str]) -> str:
    """The task and its loss, `regression (mae); `; empty for the usual classification."""
    task, loss = task_of(measured), experiment.task.loss
    if task not in _TASKS:
        return f"loss {loss}; " if loss else ""
    name, usual = _TASKS[task]
    return f"{name} ({loss or usual}); "


def describe_network(experiment: Experiment, sizes: Sequence[int] | None = None) -> str:
    """The devices and their islands: `100 devices on 2 rings of 50`."""
    network = experiment.network
    sizes = tuple(sizes or network.sizes)
    devices = plural(sum(sizes), "device")
    if set(sizes) == {1}:
        return f"{devices} without links"
    each = f" of {sizes[0]}" if len(set(sizes)) == 1 else f" of {', '.join(map(str, sizes))}"
    many = len(sizes) > 1
    if network.is_file and many:
        return f"{devices} on {len(sizes)} islands{each} devices, from {written(network.topology)}"
    if network.is_file:
        kind = network.topology
    elif network.topology in _PLURALS:
        kind = _PLURALS[network.topology] if many else network.topology
    else:
        kind = f"{network.topology} graph{'s' if many else ''}"
    fresh = ", redrawn every round" if network.dynamic else ""
    return f"{devices} on {len(sizes) if many else 'one'} {kind}{each}{fresh}"


def describe_runs(experiments: Sequence[Experiment]) -> str:
    """One line on the network, problem, server, rounds and seeds that runs have in common."""
    # A preset sets some fields itself, so a run without one represents the study better.
    first = next((one for one in experiments if not one.server.name), experiments[0])
    seeds = {experiment.seed for experiment in experiments}
    return (
        f"{describe_network(first)}; {describe_problem(first)}, stepsize "
        f"{first.training.stepsize:g}; {_server_in_words(first.server)}; {_further(first)}"
        f"{plural(first.rounds, 'round')}, {plural(len(seeds), 'seed')}"
    )


def describe_results(results: Results) -> str:
    """As `describe_runs`; where experiments differ, a remark that labels say how."""
    text = describe_runs([lane.experiment for lane in results])
    differ = any(lane.apart for lane in results)
    return f"{text}; the labels say in which fields the experiments differ" if differ else text


def _further(experiment: Experiment) -> str:
    """Clock, deadline, method and compression, if any: `clock wifi_home; method carry; `."""
    network, server, clock = experiment.network, experiment.server, experiment.clock.file
    parts = [f"clock {written(clock)}"] if clock else []
    if server.is_there and server.over_sample > 0:
        parts.append(f"the first of {server.sampled + server.over_sample} called")
    if server.is_there and server.deadline is not None:
        parts.append(f"deadline {server.deadline:g} s")
    if not experiment.method.is_plain:
        parts.append(f"method {experiment.method.name}")
    ways = {"both": "server messages", "up": "messages to the server", "down": "those from it"}
    for what, section in (("links", network), (ways[server.compressed], server)):
        if section.compresses:
            sparse = section.compression in ("top_k", "random_k")
            share = f" to {section.compression_share:g}" if sparse else ""
            parts.append(f"{what} compressed by {section.compression}{share}")
    return "".join(f"{part}; " for part in parts)


def _server_in_words(server: Server) -> str:
    """`server samples 20 every 5 rounds`, with "at first" if a schedule changes them."""
    period = "every round" if server.period == 1 else f"every {server.period} rounds"
    K_changes, H_changes = (server.has_schedule(one) for one in ("sampled", "period"))
    if K_changes and H_changes:
        return f"server samples {server.sampled} {period}, both at first"
    sampled = f"{server.sampled} at first," if K_changes else server.sampled
    return f"server samples {sampled} {period}{' at first' if H_changes else ''}"


def describe_problem(experiment: Experiment) -> str:
    """The data, their split and the model: `digits (non_iid across, iid within); linear`."""
    data, model = experiment.data, experiment.model.name
    dataset = "given data" if is_given("dataset", data.dataset) else data.dataset
    dataset = written(data.path) if dataset == "devices" else dataset
    model = "a given model" if is_given("model", model) else model
    split = f"{data.inter} across, {data.intra} within" if data.split == "dealt" else BY_DEVICE
    return f"{dataset} ({split}); {model}"


def describe_split(data: Data) -> str:
    """The split of the data: `non_iid across islands, iid within`."""
    if data.split == "given":
        return BY_DEVICE
    return f"{data.inter} across islands, {data.intra} within"
