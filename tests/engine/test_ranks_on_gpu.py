"""Ranks on a GPU compute what one process computes there. Skipped where there is no GPU."""

import numpy as np
import pytest
import torch

import shared_gpu

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

BOUND = 1e-5
"""Of the models' norm: the server's average is rounded differently without ranks."""
OF_A_NETWORK = 1e-3
"""Training makes more of it where a unit may be on or off."""


@pytest.fixture(scope="module")
def teams(tmp_path_factory):
    return shared_gpu.all_teams("cuda", tmp_path_factory.mktemp("teams"))


@pytest.mark.parametrize("name", shared_gpu.WORLDS)
def test_a_rank_on_nccl_computes_what_a_process_alone_does(teams, name):
    (ours, rows), (theirs, expected) = (teams[1][which][name] for which in ("ranks", "alone"))
    bound = OF_A_NETWORK if name == "mlp" else BOUND
    assert (ours - theirs).norm() <= bound * theirs.norm()
    for row, other in zip(rows, expected, strict=True):
        assert row.keys() == other.keys()
        for key in row:
            assert row[key] == pytest.approx(other[key], rel=1e-2, abs=1e-4, nan_ok=True)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", shared_gpu.WORLDS)
def test_the_number_of_ranks_changes_no_bit(teams, name, ranks):
    """Where islands are whole; those that are cut mix by a sparse W."""
    (ours, _), (theirs, _) = (teams[number]["ranks"][name] for number in (ranks, 1))
    if name in shared_gpu.WHOLE:
        assert torch.equal(ours, theirs)
    assert (ours - theirs).norm() <= BOUND * theirs.norm()


def test_stopped_on_two_ranks_and_resumed_on_one_equals_uninterrupted(teams):
    """To the bit, but for a mean of what ranks sum up each by itself."""
    for ours, theirs in zip(teams[1]["resumed"], teams[1]["whole"], strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours.keys() - {"train_loss"}:
            assert np.array_equal(ours[name], theirs[name], equal_nan=True), name
