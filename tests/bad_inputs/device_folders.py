"""Data by device, a file for each in a folder."""

import numpy as np

from bad_inputs.arrays import X, Y
from bad_inputs.by_device import ONE, ONE_CSV, TABLE_CSV, folder

ROWS = [
    folder(
        "a folder without data",
        {"notes.md": "hello"},
        "homes holds no files that end in .npz, .parquet, .csv. Put a file per device in it.",
    ),
    folder(
        "a device twice",
        {"east/attic.npz": ONE, "west/attic.npz": ONE},
        "device 'attic' appears twice: homes/east/attic.npz and homes/west/attic.npz. Keep one.",
    ),
    folder(
        "samples of another shape",
        {"attic.npz": ONE, "barn.npz": ONE | {"x": X[:20, :4]}},
        "device 'barn' (homes/barn.npz) has samples of shape (4,), but device 'attic' "
        "(homes/attic.npz) of shape (5,). All devices must have the same kind of samples.",
    ),
    folder(
        "labels of another kind",
        {"attic.npz": ONE, "barn.npz": ONE | {"y": Y[:20].astype(str)}},
        "device 'barn' (homes/barn.npz) has labels that are text, but device 'attic' "
        "(homes/attic.npz) has whole numbers. All devices must have the same kind of labels.",
    ),
    folder(
        "pixels on one device",
        {"attic.npz": ONE, "barn.npz": ONE | {"x": np.zeros((20, 5), np.uint8)}},
        "device 'barn' (homes/barn.npz) has samples of uint8, but device 'attic' "
        "(homes/attic.npz) of float32.",
    ),
    folder(
        "fewer labels than samples",
        {"attic.npz": ONE, "barn.npz": ONE | {"x_test": X[:5], "y_test": Y[:4]}},
        "homes/barn.npz: y must be as long as x (got shapes (4,) and (5, 5)).",
    ),
    folder(
        "a device without samples",
        {"attic.npz": ONE, "barn.npz": {"x": X[:0], "y": Y[:0]}},
        "homes: device 'barn' has no training samples. Leave out devices without data.",
    ),
    folder(
        "a file of another device",
        {"attic.csv": ONE_CSV, "barn.csv": TABLE_CSV},
        "homes/barn.csv is the file of device 'barn', but holds samples of 'd0'. Name the file as "
        "the device, or give one table with a column 'device'.",
    ),
    folder(
        "a column that others lack",
        {"attic.csv": ONE_CSV, "barn.csv": ONE_CSV.replace("b", "c", 1)},
        "homes/barn.csv lacks the column 'b', unlike the tables before it. All devices must have "
        "the same features.",
    ),
    folder(
        "names that the graph does not know",
        {"attic.npz": ONE, "barn.npz": ONE, "../g.edgelist": "attic cellar"},
        "devices of the graph and of the data must have the same names (no data for 'cellar'; no "
        "place in the graph for 'barn'). Rename them in one of the two.",
        also="network.topology=g.edgelist",
    ),
    folder(
        "islands that a link joins",
        {"east/attic.npz": ONE, "west/barn.npz": ONE, "../g.edgelist": "attic barn"},
        "the data put device 'barn' on island 'west' and 'attic' on 'east', but the graph links "
        "them. Leave the islands out, or the link.",
        also="network.topology=g.edgelist",
    ),
    folder(
        "an island without a way",
        {"east/attic.npz": ONE, "east/barn.npz": ONE, "../g.edgelist": "attic attic\nbarn barn"},
        "the data put devices 'attic' and 'barn' on island 'east', but the graph has no path "
        "between them. Leave the islands out, or add a link.",
        also="network.topology=g.edgelist",
    ),
    folder(
        "some without an island",
        {"east/attic.npz": ONE, "barn.npz": ONE},
        "homes: device 'barn' has no island, but others have. Give every device an island, or "
        "none.",
    ),
]
