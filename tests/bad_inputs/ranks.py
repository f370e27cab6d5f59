"""What cannot be divided among ranks."""

from bad_inputs.rows import run

ROWS = [
    run(
        "more ranks than devices",
        ["--ranks", "20", "--dry-run"],
        "--ranks must be at most the number of devices (got 20 ranks for 10 devices). Ask for "
        "fewer ranks.",
    ),
    run(
        "a method on ranks",
        ["--ranks", "2", "--dry-run", "--set", "method.name=gradient_tracking"],
        "method.name = 'gradient_tracking' keeps more than a model on a device, which is not "
        "divided among ranks. Run it without them.",
    ),
    run(
        "weight decay on ranks",
        ["--ranks", "2", "--dry-run", "--set", "training.weight_decay=0.01"],
        "training.weight_decay = 0.01 changes the steps of each device, which is not divided among "
        "ranks. Run it without them.",
    ),
    run(
        "compressed messages on ranks",
        ["--ranks", "2", "--dry-run", "--set", "network.compression=int8"],
        "a compressed message needs what its sender and receiver know of each other, which is not "
        "divided among ranks. Run it without them.",
    ),
    run(
        "importance on ranks",
        ["--ranks", "2", "--dry-run", "--set", "server.selection=importance"],
        "server.selection = 'importance' depends on the models of all devices, which is not "
        "divided among ranks. Run it without them.",
    ),
]
