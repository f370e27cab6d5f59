"""What the theory says of the measured problem, under the rule by which its server samples."""

import pytest

from skerry.advice.prediction import predict
from skerry.theory.communication import ONE_EACH
from skerry.theory.constants import constants_of
from theory_bench import bench


def predicted(*settings, notes=None):
    world = bench("server.sampled=6", "data.inter=non_iid", *settings)
    constants = constants_of(world, rounds=[0], draws=2)
    return predict(constants, 50, ONE_EACH, [] if notes is None else notes)


def test_the_papers_theorems_where_they_hold():
    found = predicted()
    assert {one.mode for one in found.order} == {"order"}


def test_another_rule_is_compared_by_its_own_bounds():
    """Certified ones, which know it."""
    found = predicted("server.selection=one_each")
    assert {one.mode for one in found.order} == {"certified"}
    assert {one.parameters.selection for one in found.order} == {"one_each"}
    assert found.order[1].rounds == found.certified[1].rounds
    assert found.favours_if(zeta_inter=10.0) in ("s2s", "s2a", None)


def test_a_rule_without_a_law_is_taken_for_uniform():
    found = predicted("server.selection=weighted")
    assert [one.rounds for one in found.order] == [one.rounds for one in predicted().order]


@pytest.mark.parametrize("field", ["sampled", "period"])
def test_a_K_or_H_that_moves_has_no_bounds(field):
    """Those of its first value would be taken for its own."""
    notes = []
    settings = (f"server.{field}_schedule=cosine", f"server.{field}_end=2")
    assert predicted(*settings, notes=notes) is None
    (note,) = notes
    assert f"(got server.{field}_schedule = 'cosine')" in note


def test_a_beta_that_moves_is_not_that_of_the_bounds():
    """They are about S2S, S2A and the best blend, whatever the experiment's own beta does."""
    settings = ("server.primitive=blend", "server.beta_schedule=cosine", "server.beta_end=0")
    found, plain = predicted(*settings), predicted()
    assert [one.rounds for one in found.certified] == [one.rounds for one in plain.certified]
