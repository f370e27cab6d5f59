"""The sections on the network with its sampled devices, and on the labels that devices hold.

Nothing is downloaded and no module of the user is imported. If something cannot be drawn, the
section says why.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.analysis import rebuild
from skerry.analysis.run_table import open_stores
from skerry.config.experiment import Experiment
from skerry.data.split import layout_of
from skerry.errors import SkerryError
from skerry.files import written
from skerry.plugins import registry
from skerry.records.store import Run
from skerry.report.figures.islands import TARGET_NAMES, device_positions
from skerry.report.page.blocks import PageSection, note, text, widget
from skerry.report.page.report_data import ReportData
from skerry.report.text import plural
from skerry.report.words import describe_network, describe_split
from skerry.seeds import stream

if TYPE_CHECKING:
    from skerry.data.dataset import Dataset
    from skerry.network.fleet import Fleet

MOST_DEVICES = 3_000
MOST_SHOWN = 12
MOST_LINKS = 4_000
MOST_ROUNDS = 120
MOST_SAMPLES = 150_000
MOST_COUNTS = 200_000
MOST_OWN = 40  # the most ways of sampling, besides the uniform one, whose samples a page holds
NOT_SAMPLING = {"primitive": "s2s", "beta": 0.5}  # fields that do not affect sampling


def network_section(data: ReportData) -> PageSection:
    """The network of the selected cell, with the devices sampled in each server round."""
    fleets: list[Fleet] = []

    def show(run: Run) -> dict[str, Any]:
        fleet = drawable_fleet(run)
        drawing = _drawing(run, fleet, device_and_island_names(data, run, fleet.labels))
        fleets.append(fleet)
        return drawing

    drawn, of_cell, why = _show_each(
        data, lambda run: (run.experiment.network, run.materials.get("graph")), show
    )
    own, own_of_group = _special_samples(data, [None if c < 0 else fleets[c] for c in of_cell])
    blocks = [
        text(
            "Each island is a circle; the network is that of the first seed. Devices with a dark "
            "ring were sampled by the server. The slider moves from one server round to the next."
        ),
        widget(
            "network",
            networks=drawn,
            ofCell=of_cell,
            orders=_orders(data, {one["devices"] for one in drawn}),
            samples=own,
            samplesOf=own_of_group,
        ),
    ]
    return PageSection("network", "The network", [*(blocks if drawn else []), *map(note, why)])


def labels_section(data: ReportData) -> PageSection:
    """The number of training samples of each class on each device."""
    splits, of_cell, why = _show_each(
        data,
        lambda run: (
            run.experiment.data, run.experiment.network.sizes, run.materials.get("dataset")
        ),
        partial(_split, data),
    )  # fmt: skip
    kinds = {one["kind"] for one in splits} or {"class"}
    kind = kinds.pop() if len(kinds) == 1 else "kind of sample"
    blocks = [
        text(
            f"Training samples by device and {kind}, for the first seed. If devices of one island "
            "hold similar data and the islands differ, models disagree mostly between islands."
        ),
        widget("labels", splits=splits, ofCell=of_cell),
    ]
    title = f"Which {'labels' if kind == 'class' else 'data'} each device holds"
    return PageSection("labels", title, [*(blocks if splits else []), *map(note, why)])


def _show_each(
    data: ReportData, key: Callable[[Run], object], show: Callable[[Run], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[int], list[str]]:
    """The networks or splits of all cells, each shown once; by cell its index among them (-1 if it
    is not shown); and the reasons why some are not shown."""
    shown: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    why: dict[str, None] = {}
    of_cell = []
    for by_label in data.grid.positions.values():
        seeds = {seed: place for runs in by_label.values() for seed, place in runs.items()}
        run = data.runs[seeds[min(seeds)]]  # one of the cell, with its lowest seed
        found = repr(key(run))
        if found not in places:
            places[found] = -1
            try:
                if len(shown) == MOST_SHOWN:
                    raise SkerryError(
                        f"Only the first {MOST_SHOWN} are shown; some cells have others."
                    )
                shown.append(show(run))
                places[found] = len(shown) - 1
            except SkerryError as error:
                why[str(error)] = None
        of_cell.append(places[found])
    return shown, of_cell, list(why)


def device_and_island_names(
    data: ReportData, run: Run, labels: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The names of all devices and of their islands, as recorded with the scores of devices or as
    the data name them; else these labels and the numbers of the islands."""
    with open_stores(data.grid.paths) as stores:
        for store in stores:
            if found := store.devices(run.key):
                return [*map(str, found["device"])], [*map(str, found["island"])]
    network, data_fields = run.experiment.network, run.experiment.data
    islands = [str(c) for c, size in enumerate(network.sizes) for _ in range(size)]
    if data_fields.split == "given":
        with suppress(SkerryError):  # data that a report must not or cannot load
            dataset = _dataset(run)
            own = () if network.is_file else layout_of(dataset, network, data_fields)[1]
            labels = own or labels
            named = dataset.holdings.islands_of(labels) if dataset.holdings else ()
            islands = [*named] or islands
    return [*labels], islands


def _drawing(run: Run, fleet: "Fleet", names: tuple[list[str], list[str]]) -> dict[str, Any]:
    links = fleet.edges(0)
    shown = links
    if len(links) > MOST_LINKS:
        shown = links[np.linspace(0, len(links) - 1, MOST_LINKS).astype(int)]
    return {
        "name": describe_network(run.experiment, fleet.sizes),
        "devices": fleet.devices,
        "places": np.round(device_positions(fleet), 3).tolist(),
        "island": fleet.island_of.tolist(),
        "labels": names[0],
        "islands": names[1],
        "links": shown.ravel().tolist(),
        "linksInAll": len(links),
        "fixed": bool(fleet.fixed),
    }


def _orders(data: ReportData, sizes: AbstractSet[int]) -> dict[str, dict[str, list[int]]]:
    """By number of devices and round, the order of sampling: the first K devices, for any K."""
    seed, most = data.grid.seeds[0], _most_sampled(data)
    return {
        str(devices): {
            str(t): stream(seed, "sampled", t).permutation(devices)[:most].tolist()
            for t in _shown_rounds(data)
        }
        for devices in sorted(sizes)
    }


def _special_samples(
    data: ReportData, fleets: Sequence["Fleet | None"]
) -> tuple[list[dict[str, list[int]]], list[int | None]]:
    """The sampled devices by round, for groups that do not sample the first K of the common order;
    and for each group its index among them, -1 for the common order, None if it is not known."""
    found: list[dict[str, list[int]]] = []
    places: dict[str, int | None] = {}
    of_group: list[int | None] = []
    seed, rounds = data.grid.seeds[0], set(_shown_rounds(data))
    for group in data.grid.groups:
        one = data.experiment(group).model_copy(update={"seed": seed})
        plain = one.server.selection == "uniform" and one.availability == type(one.availability)()
        plain = plain and not one.server.has_schedule("sampled")
        fleet = fleets[group.cell]
        key = repr((one.server.model_copy(update=NOT_SAMPLING), one.availability, one.network))
        if plain or fleet is None:
            places[key] = -1
        elif key not in places:
            samples = _sampled_by_round(one, fleet, rounds) if len(found) < MOST_OWN else None
            places[key] = None if samples is None else len(found)
            found += [] if samples is None else [samples]
        of_group.append(places[key])
    return found, of_group


def _sampled_by_round(
    experiment: Experiment, fleet: "Fleet", rounds: AbstractSet[int]
) -> dict[str, list[int]] | None:
    shown = rounds & set(experiment.server.known_rounds(experiment.rounds))
    try:
        met = {str(t): rebuild.sampled_devices(experiment, fleet, t) for t in sorted(shown)}
    except SkerryError:  # an availability trace that no longer exists
        return None
    return None if None in met.values() else {t: who for t, who in met.items() if who is not None}


def _shown_rounds(data: ReportData) -> list[int]:
    """The server rounds of all runs, or evenly spaced ones if there are too many."""
    servers = {(one.server, one.rounds) for one in data.experiments}
    found = sorted({t for server, rounds in servers for t in server.known_rounds(rounds)})
    most = min(MOST_ROUNDS, max(4, MOST_SAMPLES // max(1, _most_sampled(data))))
    if len(found) > most:
        found = [found[place] for place in np.linspace(0, len(found) - 1, most).astype(int)]
    return found


def _most_sampled(data: ReportData) -> int:
    servers = (one.server for one in data.experiments)
    return max((server.sampled for server in servers if server.is_there), default=0)


def _split(report: ReportData, run: Run) -> dict[str, Any]:
    data, sizes = run.experiment.data, run.experiment.network.sizes
    dataset = _dataset(run)
    counts = rebuild.rebuild_partition(run, dataset).label_counts
    starts = np.cumsum((0, *sizes[:-1]))
    by_device = counts.size <= MOST_COUNTS
    devices, islands = device_and_island_names(report, run, [*map(str, range(sum(sizes)))])
    classes = dataset.holdings.classes if dataset.holdings else ()
    return {
        "name": f"{written(data.path) or data.dataset}: {describe_split(data)}, "
        f"{plural(len(sizes), 'island')}",
        "kind": TARGET_NAMES[dataset.targets],
        "by": "device" if by_device else "island",
        "counts": (counts if by_device else np.add.reduceat(counts, starts)).tolist(),
        "island": np.repeat(np.arange(len(sizes)), sizes if by_device else 1).tolist(),
        "islands": islands,
        "rows": devices if by_device else [islands[start] for start in starts],
        "classes": [*classes] or [*map(str, range(counts.shape[1]))],
    }


def _dataset(run: Run) -> "Dataset":
    """The data of a run; SkerryError if they cannot or must not be loaded for a page."""
    for kind, name in run.experiment.data.functions.items():
        _check_built_in(kind, name)
    return rebuild.rebuild_dataset(run)


def drawable_fleet(run: Run) -> "Fleet":
    """The network of a run; SkerryError if it cannot or must not be built for a page."""
    network = run.experiment.network
    if not network.is_file:
        _check_built_in("topology", network.topology)
        _check_built_in("mixing", network.mixing)
    if network.devices > MOST_DEVICES:
        raise SkerryError(f"Not drawn: {network.devices:,} devices are too many.")
    return rebuild.rebuild_fleet(run)


def _check_built_in(kind: str, name: str) -> None:
    if registry.is_given(kind, name):
        what = "graph" if kind == "topology" else "data"
        raise SkerryError(
            f"Not drawn: the {what} of these runs came from Python, and the records have no copy. "
            "Use a file instead to have it drawn."
        )
    if not registry.is_builtin(kind, name):
        raise SkerryError(
            f"Not drawn: the {kind} {name} is your own code, which a report does not run."
        )
