"""Do two versions of Skerry give the same numbers?

    python benchmarks/same_numbers.py --write before.json      # with the one version
    python benchmarks/same_numbers.py --against before.json    # with the other

Runs over 200 small experiments over all built-in topologies, weights, splits, models, schedules,
samplings, primitives and server optimizers, and compares every final value to the bit. Cases have
the names of their settings, because content keys may differ between versions.
`benchmarks/results/same-numbers.json` holds the values of version 0.1.0 on two cores of one
machine;
on another machine the last digits may differ, so `--digits 4` compares fewer of them.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import skerry

BASE = (
    "network.devices=12",
    "training.batch=8",
    "server.sampled=4",
    "server.period=2",
    "rounds=5",
)
TOPOLOGIES = (
    ("ring",),
    ("complete",),
    ("star",),
    ("path",),
    ("grid",),
    ("torus",),
    ("regular", "network.degree=3"),
    ("erdos_renyi", "network.edge_prob=0.7"),
    ("watts_strogatz", "network.degree=2", "network.rewire_prob=0.3"),
    ("barabasi_albert",),
)
SERVERS = (
    ("s2s",),
    ("s2a",),
    ("blend", "server.beta=0.25"),
    ("none",),
    ("s2s", "server.optimizer=fedavgm"),
    ("s2a", "server.optimizer=fedavgm", "server.momentum=0.5"),
)
OTHERS = (
    ("network.mixing=max_degree",),
    ("network.mixing=laplacian",),
    ("network.mixing=lazy",),
    ("network.dynamic=true", "network.topology=erdos_renyi"),
    ("network.link_failure=0.3",),
    ("network.components=3",),
    ("network.components=[2,10]",),
    ("data.inter=iid",),
    ("data.inter=dirichlet",),
    ("data.inter=dirichlet", "data.inter_alpha=0.5", "data.intra=dirichlet"),
    ("data.intra=dirichlet", "data.alpha=0.3"),
    ("data.intra=shards", "data.shards=3"),
    ("data.min_samples=20", "data.intra=dirichlet"),
    ("data.scaling=unit",),
    ("data.dataset=synthetic",),
    ("data.dataset=synthetic", "data.samples=600", "data.classes=4"),
    ("model.name=mlp",),
    ("model.name=mlp", "model.hidden=[16]"),
    ("model.name=quadratic",),
    ("training.schedule=step", "training.decay_every=2"),
    ("training.schedule=cosine",),
    ("training.schedule=inverse_sqrt",),
    ("training.local_steps=3",),
    ("training.sampling=epochs",),
    ("training.stepsize=0.01",),
    ("server.offset=1",),
)


def cases() -> dict[str, "skerry.Experiment"]:
    """The experiments by their settings, joined by spaces."""
    base = skerry.Experiment.parse({}, BASE)
    changes = [*((f"network.topology={one}", *more) for one, *more in TOPOLOGIES), *OTHERS]
    settings = [
        (*change, f"server.primitive={primitive}", *options)
        for change in changes
        for primitive, *options in SERVERS
    ]
    return {" ".join(one): base.with_settings(*one) for one in settings}


def measured() -> dict[str, dict[str, float]]:
    """The final values of every case."""
    experiments = cases()
    lanes = {lane.key: lane for lane in skerry.run(list(experiments.values()))}
    found = {name: lanes[experiment.key()] for name, experiment in experiments.items()}
    return {name: {"round": lane.experiment.rounds, **lane.final} for name, lane in found.items()}


def differences(
    before: dict[str, dict[str, float]], after: dict[str, dict[str, float]], digits: int | None
) -> Iterator[str]:
    for case in before.keys() ^ after.keys():
        yield f"{case} is only in the {'first' if case in before else 'second'}"
    for case in before.keys() & after.keys():
        for name in before[case].keys() | after[case].keys():
            old, new = (finals.get(name, math.nan) for finals in (before[case], after[case]))
            close = 10.0 ** -(digits or 0)
            same = math.isclose(old, new, rel_tol=close, abs_tol=close) if digits else old == new
            if not same and not (math.isnan(old) and math.isnan(new)):
                yield f"{case}: {name} was {old!r} and is {new!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path, help="where to write final values")
    parser.add_argument("--against", type=Path, help="what was written before")
    parser.add_argument("--digits", type=int, help="compare so many digits, not every bit")
    asked = parser.parse_args()
    after = measured()
    if asked.write:
        asked.write.write_text(json.dumps(after, indent=0) + "\n")
        print(f"{len(after)} cases written to {asked.write}")
    if asked.against:
        found = list(differences(json.loads(asked.against.read_text()), after, asked.digits))
        print("\n".join(found[:20]) or f"{len(after)} cases: all final values are the same")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
