"""The network with its islands and sampled devices, and who holds which labels. For a page nothing
is fetched and no module of a user is imported; what cannot be built says why."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.config.experiment import Experiment
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.records.store import Run
from skerry.report import rebuild
from skerry.report.figures.islands import KINDS
from skerry.report.figures.islands import places as places_of
from skerry.report.page.blocks import Section, note, text, widget
from skerry.report.page.study import Study
from skerry.report.text import plural
from skerry.report.words import fleet_in_words, split_in_words
from skerry.seeds import stream

if TYPE_CHECKING:
    from skerry.network.fleet import Fleet

MOST_DEVICES = 3_000
MOST_SHOWN = 12
MOST_LINKS = 4_000
MOST_ROUNDS = 120
MOST_SAMPLES = 150_000
MOST_COUNTS = 200_000
MOST_OWN = 40
"""Ways of sampling, besides the usual one, whose samples a page holds."""
ANY = {"primitive": "s2s", "beta": 0.5}
"""What of a server plays no part in whom it samples."""


def network(study: Study) -> Section:
    fleets: list[Fleet] = []

    def show(run: Run) -> dict[str, Any]:
        fleet = fleet_of(run)
        drawing = _drawing(run, fleet)
        fleets.append(fleet)
        return drawing

    drawn, of_cell, why = _each(study, _network_key, show)
    own, own_of_group = _own_samples(study, [None if c < 0 else fleets[c] for c in of_cell])
    blocks = [
        text(
            "Every island on a circle of its own, as it was for the first seed. Ringed devices are "
            "those that the server sampled: move the slider from one server round to the next."
        ),
        widget(
            "network",
            networks=drawn,
            ofCell=of_cell,
            orders=_orders(study, {one["devices"] for one in drawn}),
            samples=own,
            samplesOf=own_of_group,
        ),
    ]
    return Section("network", "The network", [*(blocks if drawn else []), *map(note, why)])


def labels(study: Study) -> Section:
    """How many training samples of each class a device holds."""
    splits, of_cell, why = _each(study, _split_key, _split)
    kinds = {one["kind"] for one in splits} or {"class"}
    kind = kinds.pop() if len(kinds) == 1 else "kind of sample"
    blocks = [
        text(
            f"Training samples by device and {kind}, for the first seed. Rows of one island that "
            "look alike, and islands that do not, make disagreement across islands."
        ),
        widget("labels", splits=splits, ofCell=of_cell),
    ]
    return Section(
        "labels",
        f"Who holds which {'labels' if kind == 'class' else 'data'}",
        [*(blocks if splits else []), *map(note, why)],
    )


def _each(
    study: Study, key: Callable[[Run], object], show: Callable[[Run], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[int], list[str]]:
    """What the cells stand on, each shown once; by cell its place among them, -1 where it is not
    shown; and why."""
    shown: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    why: dict[str, None] = {}
    of_cell = []
    for run in _first_runs(study):
        found = repr(key(run))
        if found not in places:
            places[found] = -1
            try:
                if len(shown) == MOST_SHOWN:
                    raise SkerryError(f"Only {MOST_SHOWN} are shown; some cells have others.")
                shown.append(show(run))
                places[found] = len(shown) - 1
            except SkerryError as error:
                why[str(error)] = None
        of_cell.append(places[found])
    return shown, of_cell, list(why)


def _first_runs(study: Study) -> Iterator[Run]:
    """One run of each cell, at its lowest seed."""
    for by_label in study.grid.places.values():
        seeds = {seed: place for runs in by_label.values() for seed, place in runs.items()}
        yield study.runs[seeds[min(seeds)]]


def _network_key(run: Run) -> object:
    return run.experiment.network, run.materials.get("graph")


def _split_key(run: Run) -> object:
    return run.experiment.data, run.experiment.network.sizes, run.materials.get("dataset")


def _drawing(run: Run, fleet: "Fleet") -> dict[str, Any]:
    links = fleet.edges(0)
    shown = links
    if len(links) > MOST_LINKS:
        shown = links[np.linspace(0, len(links) - 1, MOST_LINKS).astype(int)]
    return {
        "name": fleet_in_words(run.experiment, fleet.sizes),
        "devices": fleet.devices,
        "places": np.round(places_of(fleet), 3).tolist(),
        "component": fleet.component_of.tolist(),
        "labels": list(fleet.labels) if run.experiment.network.is_file else None,
        "links": shown.ravel().tolist(),
        "linksInAll": len(links),
        "fixed": bool(fleet.fixed),
    }


def _orders(study: Study, sizes: AbstractSet[int]) -> dict[str, dict[str, list[int]]]:
    """By number of devices and round, the devices in the order in which the server samples them
    (as World.server_order draws them): the first K are sampled, for every K."""
    seed, most = study.grid.seeds[0], _most_sampled(study)
    return {
        str(devices): {
            str(t): stream(seed, "sampled", t).permutation(devices)[:most].tolist()
            for t in _shown_rounds(study)
        }
        for devices in sorted(sizes)
    }


def _own_samples(
    study: Study, fleets: Sequence["Fleet | None"]
) -> tuple[list[dict[str, list[int]]], list[int | None]]:
    """Where the first K of a common order are not the sample: the sampled devices by round, and for
    each group its place among them; -1 where the common order holds, None where it is not known."""
    found: list[dict[str, list[int]]] = []
    places: dict[str, int | None] = {}
    of_group: list[int | None] = []
    seed, rounds = study.grid.seeds[0], set(_shown_rounds(study))
    for group in study.grid.groups:
        one = study.experiment(group).model_copy(update={"seed": seed})
        plain = one.server.selection == "uniform" and one.availability == type(one.availability)()
        plain = plain and not one.server.has_schedule("sampled")
        fleet = fleets[group.cell]
        key = repr((one.server.model_copy(update=ANY), one.availability, one.network))
        if plain or fleet is None:
            places[key] = -1
        elif key not in places:
            met = _met(one, fleet, rounds) if len(found) < MOST_OWN else None
            places[key] = None if met is None else len(found)
            found += [] if met is None else [met]
        of_group.append(places[key])
    return found, of_group


def _met(
    experiment: Experiment, fleet: "Fleet", rounds: AbstractSet[int]
) -> dict[str, list[int]] | None:
    shown = rounds & set(experiment.server.known_rounds(experiment.rounds))
    try:
        met = {str(t): rebuild.sampled_in(experiment, fleet, t) for t in sorted(shown)}
    except SkerryError:  # a trace that is gone
        return None
    return None if None in met.values() else {t: who for t, who in met.items() if who is not None}


def _shown_rounds(study: Study) -> list[int]:
    """The server rounds of all runs, evenly thinned."""
    servers = {(one.server, one.rounds) for one in study.experiments}
    found = sorted({t for server, rounds in servers for t in server.known_rounds(rounds)})
    most = min(MOST_ROUNDS, max(4, MOST_SAMPLES // max(1, _most_sampled(study))))
    if len(found) > most:
        found = [found[place] for place in np.linspace(0, len(found) - 1, most).astype(int)]
    return found


def _most_sampled(study: Study) -> int:
    servers = (one.server for one in study.experiments)
    return max((server.sampled for server in servers if server.is_there), default=0)


def _split(run: Run) -> dict[str, Any]:
    data, sizes = run.experiment.data, run.experiment.network.sizes
    for kind, name in data.functions.items():
        _check_built_in(kind, name)
    dataset = rebuild.dataset_of(run)
    counts = rebuild.partition_of(run, dataset).label_counts
    starts = np.cumsum((0, *sizes[:-1]))
    by_device = counts.size <= MOST_COUNTS
    return {
        "name": f"{data.dataset}: {split_in_words(data)}, {plural(len(sizes), 'island')}",
        "kind": KINDS[dataset.targets],
        "by": "device" if by_device else "island",
        "counts": (counts if by_device else np.add.reduceat(counts, starts)).tolist(),
        "component": np.repeat(np.arange(len(sizes)), sizes if by_device else 1).tolist(),
    }


def fleet_of(run: Run) -> "Fleet":
    """The network that a run ran on; SkerryError where it is not to be had."""
    network = run.experiment.network
    if not network.is_file:
        _check_built_in("topology", network.topology)
        _check_built_in("mixing", network.mixing)
    if network.devices > MOST_DEVICES:
        raise SkerryError(f"{network.devices:,} devices are too many to draw.")
    return rebuild.fleet_of(run)


def _check_built_in(kind: str, name: str) -> None:
    if registry.is_given(kind, name):
        what = "graph" if kind == "topology" else "data"
        raise SkerryError(
            f"Not drawn: the {what} of these runs came from Python, and records keep no copy. From "
            "a file it would be drawn."
        )
    if not registry.is_builtin(kind, name):
        raise SkerryError(f"The {kind} {name} is your own; a report does not run it.")
