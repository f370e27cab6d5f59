"""Data by device, in one table."""

import numpy as np

from bad_inputs.arrays import X, Y, cut
from bad_inputs.by_device import ONE, TABLE_CSV, fleet
from bad_inputs.rows import sets

WHO = np.repeat(["attic", "barn", "den"], 20)
TABLE = {"x": X, "y": Y, "device": WHO}
NOT_FINITE = np.where(np.arange(300).reshape(60, 5) == 202, np.nan, X)

ROWS = [
    sets(
        "data by device, no split",
        "data.dataset=devices data.path=f.npz",
        'data.dataset = "devices" says which device holds which samples. Set data.split = "given" '
        'to keep this assignment, or "dealt" to partition the samples again.',
    ),
    sets(
        "data by device, no path",
        "data.dataset=devices data.split=given",
        "data.path must name a table with a column device, or a folder with a file per device, "
        'when data.dataset = "devices". Set data.path.',
    ),
    sets(
        "digits are nobody's",
        "data.split=given",
        'data.split = "given" needs data that say which device holds which samples (got digits). '
        'Use data.dataset = "devices" with data.path, skerry.from_devices, or data.split = '
        '"dealt".',
    ),
    sets(
        "half given",
        "data.split=half",
        "data.split must be one of 'dealt' or 'given' (got \"half\").",
    ),
    fleet(
        "table that is not there",
        "",
        "/nope.npz. Name a table (.npz, .parquet, .csv) or a folder with a file per device.",
        also="data.path=nope.npz",
    ),
    fleet("table of another kind", "a", "f.txt must end in .npz, .parquet, .csv", file="f.txt"),
    fleet(
        "table cut off",
        lambda path: cut(path, TABLE),
        "f.npz cannot be read: it is not a .npz file, or it is truncated. Write it with "
        "np.savez(path, x=..., y=..., device=...), without objects.",
    ),
    fleet(
        "table without devices",
        ONE,
        "f.npz must name the device of every sample. Add a column 'device', or give a folder "
        "with a file per device.",
    ),
    fleet("table without labels", {"x": X, "device": WHO}, "f.npz has x, but no y."),
    fleet(
        "table of other arrays",
        {"a": X, "b": Y},
        "f.npz must hold x and y (got a, b).",
    ),
    fleet(
        "too few devices for the rows",
        TABLE | {"device": WHO[:50]},
        "f.npz: device must be as long as x (got shapes (50,) and (60, 5)).",
    ),
    fleet(
        "objects in a table",
        {"x": X, "y": Y.astype(object), "device": WHO},
        "f.npz cannot be read (ValueError: Object arrays cannot be loaded when allow_pickle=False)",
    ),
    fleet(
        "devices that are halves",
        TABLE | {"device": np.linspace(0, 1, 60)},
        "f.npz: device must hold names or whole numbers (got float64 of shape (60,)).",
    ),
    fleet(
        "numbers of no names",
        TABLE | {"device": np.arange(60) % 4, "devices": np.array(["a", "b", "c"])},
        "f.npz: device must number the names in devices, 0 to 2 (got 0 to 3).",
    ),
    fleet(
        "samples of nobody",
        TABLE | {"device": np.where(np.arange(60) < 2, "", WHO)},
        "f.npz: a training sample has no device (got 2 without). Name the device of every training "
        "sample.",
    ),
    fleet(
        "a name with a line end",
        TABLE | {"device": np.where(WHO == "den", "d\nen", WHO)},
        "f.npz: a device must have a name that can be printed (got 'd\\nen').",
    ),
    fleet(
        "a part that is neither",
        TABLE | {"split": np.where(np.arange(60) % 2, "train", "later")},
        "f.npz: split must be train or test (got 'later').",
    ),
    fleet(
        "a device with tests alone",
        TABLE | {"split": np.where(WHO == "den", "test", "train")},
        "f.npz: device 'den' has no training samples. Leave out devices without data.",
    ),
    fleet(
        "a device on two islands",
        TABLE | {"island": np.where(np.arange(60) % 20 < 3, "west", "east")},
        "f.npz: device 'attic' is on two islands, 'west' and 'east'. A device is on one.",
    ),
    fleet(
        "a feature that is not finite",
        TABLE | {"x": NOT_FINITE},
        "f.npz: device 'den' has a training sample that is not finite (nan at position 2). Fill or "
        "drop it.",
    ),
    fleet(
        "a target that is not finite",
        TABLE | {"y": np.where(np.arange(60) == 24, -np.inf, np.arange(60.0))},
        "f.npz: device 'barn' has a training target that is not finite (-inf at position 0).",
    ),
    fleet(
        "a test label nobody has",
        TABLE
        | {
            "y": np.where(np.arange(60) == 59, 3, Y),
            "split": np.where(np.arange(60) % 20 > 15, "test", "train"),
        },
        "f.npz: device 'den' has the test label 3, which no device has to train on. Leave those "
        "samples out.",
    ),
    fleet(
        "labels from 1 on by device",
        TABLE | {"y": Y + 1},
        "f.npz: y_train must hold every label from 0 to classes - 1 (got 3 labels from 1 to 3).",
    ),
    fleet(
        "words for samples",
        TABLE | {"x": X.astype(str)},
        "f.npz must have samples that are numbers (got text of shape (5,)).",
    ),
    fleet(
        "samples in no rows",
        TABLE | {"x": X[:, 0]},
        "f.npz must have samples in rows, as an array of at least two dimensions (got shape "
        "(60,)).",
    ),
    fleet(
        "nothing to test on",
        {"x": X[:8], "y": np.arange(8) % 3, "device": np.repeat(["a", "b"], 4)},
        "f.npz: there are no test samples, and no device has 5 samples of which one could be held "
        "out. Give test samples.",
    ),
    fleet(
        "another number of devices",
        TABLE,
        "network.devices must match the data (got 7, the data have 3 devices). Leave "
        "network.devices out.",
        also="network.devices=7",
    ),
    fleet(
        "another number of islands",
        TABLE | {"island": WHO},
        "network.components must match the islands of the data (got 2, the data have 3 of sizes "
        "[1, 1, 1]). Leave network.components out.",
        also="network.components=2",
    ),
    fleet(
        "more islands than devices",
        TABLE,
        "network.components must be at most network.devices (got 5 islands for 3 devices).",
        also="network.components=5",
    ),
    fleet(
        "more sampled than devices with data",
        TABLE,
        "server.sampled must be between 1 and the number of devices (got 4 of 3 devices). Lower "
        "server.sampled.",
        also="server.sampled=4",
    ),
    fleet(
        "text in a column",
        TABLE_CSV.replace("4,-4", "4,warm"),
        "f.csv: column 'b' must hold numbers (got 'warm' in row 5, device 'd1').",
        file="f.csv",
    ),
    fleet(
        "a row without a label",
        TABLE_CSV + "d1,3,4,\n",
        "f.csv: row 31, device 'd1' has no label.",
        file="f.csv",
    ),
    fleet(
        "a table without a label column",
        TABLE_CSV.replace("y", "z"),
        "f.csv must have one column y or label (got device, a, b, z).",
        file="f.csv",
    ),
    fleet(
        "rows longer than the header",
        TABLE_CSV.replace("\nd", "\n0,d"),
        "f.csv: line 2 must have as many cells as the header, 4 (got 5). Separate cells by commas, "
        "and quote text that has one.",
        file="f.csv",
    ),
    fleet(
        "a row shorter than the header",
        "y,a,island,device\n" + "0,1,w,d\n1,2,w,d\n" * 9 + "1,2,w\n",
        "f.csv: line 20 must have as many cells as the header, 4 (got 3).",
        file="f.csv",
    ),
    fleet(
        "a column twice",
        TABLE_CSV.replace("device,a,b,y", "device,a,y,y"),
        "f.csv has the column 'y' twice. Keep one of each.",
        file="f.csv",
    ),
    fleet(
        "a number that is missing",
        TABLE_CSV.replace("4,-4", "4,NA"),
        "f.csv: column 'b' must hold numbers (got 'NA' in row 5, device 'd1').",
        file="f.csv",
    ),
    fleet(
        "a csv that is none", b"\xff\xfe\x00a", "f.csv cannot be read as a table (", file="f.csv"
    ),
    fleet(
        "a parquet file that is none",
        "parquet",
        "f.parquet cannot be read as a table (",
        file="f.parquet",
    ),
]
