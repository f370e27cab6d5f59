"""Numbers too large for any memory."""

from bad_inputs.rows import run, sets

ROWS = [
    sets(
        "too many devices",
        "network.devices=100_000_000 network.components=100_000_000",
        "network.devices must be at most 1,000,000 (got 100000000).",
    ),
    sets(
        "too many components",
        "network.components=100_000_000",
        "network.components must be at most network.devices (got 100000000 islands for 10 ",
    ),
    sets(
        "too many links",
        "network.devices=100_000 network.topology=complete network.components=1 "
        "data.dataset=synthetic data.samples=100_000 data.features=2",
        "network.topology = 'complete' must have at most 10,000,000 links (got about "
        "4,999,950,000). Lower network.devices, have more components, or take a topology with",
    ),
    sets("too many rounds", f"rounds={10**12}", "rounds must be at most 1,000,000,000 (got 10000"),
    sets(
        "too large a minibatch",
        f"training.batch={10**18}",
        "training.batch must be at most 1,000,000,000 (got 1000000000000000000).",
    ),
    sets("too late", f"server.offset={10**30}", "server.offset must be at most 1,000,000,000 (got"),
    run(
        "too many seeds",
        ["--seeds", "1000000000000"],
        "--seeds must give at most 50,000 runs (got 1,000,000,000,000 seeds of 3). Take fewer",
    ),
    sets(
        "models of a terabyte",
        "model.name=mlp model.hidden=10_000_000 network.devices=5000 data.dataset=synthetic "
        "data.features=2 data.classes=2",
        "out of memory: the models of 5,000 devices with 50,000,002 parameters take 1,000.0 GB of ",
    ),
]
