"""Pipes, devices and folders where a file is expected: refused without reading from them."""

import os

from bad_inputs.rows import SMALL, Row, run, settings

PIPE = "a pipe, a device or a socket, not a file"
DEVICES = ["data.dataset=devices", "data.split=given"]


def pipe(id: str, file: str, arguments: list[str], *told: str) -> Row:
    return Row(id, tuple(arguments), told, {file: os.mkfifo})


ROWS = [
    pipe("pipe as experiment", "e.toml", ["run", "e.toml"], f"cannot read e.toml ({PIPE})."),
    pipe("pipe as sweep", "s.toml", ["sweep", "s.toml"], f"cannot read s.toml ({PIPE})."),
    run(
        "device as npz",
        settings("data.dataset=npz", "data.path=/dev/zero"),
        f"data.path is {PIPE}: /dev/zero. Name a .npz file.",
    ),
    pipe(
        "pipe as table",
        "f.csv",
        ["run", *settings(*DEVICES, "server.sampled=1", "data.path=f.csv")],
        "/f.csv. Name a table (.npz, .parquet, .csv) or a folder",
    ),
    run(
        "device as published data",
        settings("data.dataset=mnist", "data.path=/dev/zero"),
        f"data.path is {PIPE}: /dev/zero. Give the folder or archive of mnist",
    ),
    pipe(
        "pipe as graph",
        "g.csv",
        ["run", *settings("network.topology=g.csv")],
        "/g.csv. Check network.topology.",
    ),
    run(
        "device as weights",
        settings("model.weights=/dev/zero"),
        f"model.weights is {PIPE}: /dev/zero. Name a .safetensors file.",
    ),
    pipe(
        "pipe as trace",
        "trace.csv",
        ["run", *settings(*SMALL, "availability.awake=trace.csv")],
        f"cannot read the trace trace.csv ([Errno 22] {PIPE}: 'trace.csv').",
    ),
    pipe(
        "pipe as public trace",
        "t.json",
        ["data", "trace", "t.json", "trace.csv"],
        "cannot read t.json as JSON (OSError: [Errno 22] a pipe, a device or a socket",
    ),
    pipe(
        "pipe as store",
        "out/skerry.sqlite",
        ["run", *settings(*SMALL), "--out", "out"],
        "out/skerry.sqlite is not a file. Choose another folder.",
    ),
    pipe("pipe as store to show", "s.sqlite", ["show", "s.sqlite"], "no store at s.sqlite."),
    run("device as folder", ["--out", "/dev/null"], "cannot make the folder /dev/null (File exi"),
]
