"""A report of a large sweep: seconds to build, megabytes, seconds until the page can be used.

    python benchmarks/report_size.py              9,600 runs of 101 rows and 25 measures
    python benchmarks/report_size.py --runs 480   a smaller one

The histories are made up, with noise in every number, which is the worst case for their size. The
browser is Chromium (the variable SKERRY_CHROMIUM, or on the PATH), driven by playwright.
"""

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import numpy as np

from skerry.config.experiment import Experiment
from skerry.config.measures import GROUPS
from skerry.records.store import FILE, Store, versions
from skerry.report.page.build import write_report

ROUNDS = 100
SEEDS = 5
AXES = {
    "data.inter": ["iid", "non_iid"],
    "data.intra": ["iid", "dirichlet"],
    "network.topology": ["ring", "grid", "complete"],
    "server.sampled": [20, 40, 60, 80, 100],
    "server.period": [5, 10, 15, 20],
    "training.stepsize": [0.003, 0.01, 0.03, 0.1],
    "server.primitive": ["s2s", "s2a"],
}
"""The paper's MNIST grid."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip


def experiments() -> Iterator[Experiment]:
    for seed, values in product(range(SEEDS), product(*AXES.values())):
        settings = [f"{name}={value}" for name, value in zip(AXES, values, strict=True)]
        yield Experiment.parse({}, [f"seed={seed}", f"rounds={ROUNDS}", *settings])


def history(experiment: Experiment, rng: np.random.Generator) -> dict[str, list[float]]:
    """Curves that climb or fall with noise; server rounds have values of their own."""
    rounds = np.arange(ROUNDS + 1)
    with_server = np.isin(rounds - 1, experiment.server.server_rounds(ROUNDS))
    columns = {"round": rounds.tolist()}
    for group, names in GROUPS.items():
        for name in names:
            noise = rng.standard_normal(ROUNDS + 1)
            if group == "communication":
                values = np.cumsum(np.full(ROUNDS + 1, 40.0))
            elif "accuracy" in name:
                values = 95 - 85 * np.exp(-rounds / 15) + noise
            else:
                values = np.exp(-rounds / 40 + 0.1 * noise)
            at_servers = name.endswith(("_before", "_ratio")) or name == "bias"
            columns[name] = np.where(with_server | (not at_servers), values, np.nan).tolist()
    return columns


def record(folder: Path, most: int) -> None:
    rng, computed_with = np.random.default_rng(0), versions()
    with Store.open(folder) as store, store.transaction():
        for experiment in islice(experiments(), most):
            key, world = experiment.key(), experiment.world_key()
            store.begin(
                {key: experiment}, materials={}, world=world, device="cpu", versions=computed_with
            )
            store.append({key: history(experiment, rng)})
            store.finish(key, "finished", wall_seconds=1.0)


def seconds_until_usable(page: Path) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    named = os.environ.get("SKERRY_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)))
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=named, args=list(SWITCHES))
        tab = browser.new_page()
        begun = time.perf_counter()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("#controls:not([hidden])")
        text = time.perf_counter()
        tab.wait_for_selector(".plot .main-svg", timeout=60_000)
        first = time.perf_counter()
        tab.wait_for_selector("html[data-ready=all]", timeout=60_000)
        every = time.perf_counter()
        tab.select_option("#controls select", index=6)
        tab.wait_for_selector("html[data-ready=all]", timeout=60_000)
        changed = time.perf_counter()
        browser.close()
    return {
        "until_text": text - begun,
        "until_first_plot": first - begun,
        "until_every_plot": every - begun,
        "another_measure": changed - every,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9_600)
    parser.add_argument(
        "--folder", type=Path, help="Keep records and page here, and use them again."
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skerry-report-") as temporary:
        folder = asked.folder or Path(temporary)
        if not (folder / FILE).exists():
            record(folder, asked.runs)
        begun = time.perf_counter()
        page = write_report(folder)
        figures = {
            "build_seconds": time.perf_counter() - begun,
            "megabytes": page.stat().st_size / 1e6,
            "peak_memory_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            **seconds_until_usable(page),
        }
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}, indent=2))


if __name__ == "__main__":
    main()
