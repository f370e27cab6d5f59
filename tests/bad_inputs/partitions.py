"""Samples that cannot be dealt as asked."""

from bad_inputs.rows import sets

ROWS = [
    sets(
        "more components than classes",
        "network.components=11 network.devices=11",
        'data.inter = "non_iid" gives every island classes of its own (got 11 islands '
        "for 10 classes).",
    ),
    sets(
        "more devices than samples",
        "network.devices=1_000_000",
        "1437 training samples are too few for 1000000 devices with at least 1 each. "
        "Lower network.devices or data.min_samples.",
    ),
    sets(
        "too many shards",
        "data.intra=shards data.shards=10_000_000",
        "data.shards times the devices of an island must be at most 10,000,000 (got 10000000 x "
        "5). Lower data.shards.",
    ),
    sets(
        "too many samples each",
        "data.min_samples=1000",
        "1437 training samples are too few for 10 devices with at least 1000 each. Lower "
        "network.devices or data.min_samples.",
    ),
    sets(
        "too many samples in one component",
        "data.min_samples=140 network.components=[8,2]",
        "island 0 has 1002 training samples for 8 devices with at least 140 each. Lower "
        "data.min_samples, or use another data.inter.",
    ),
]
