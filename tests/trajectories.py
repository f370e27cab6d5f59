"""The fast engine beside the loop that follows the paper line by line."""

from functools import cache
from unittest.mock import patch

from oracle import trajectory
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.network.fleet import Fleet


def assert_same_trajectories(world, experiments, tolerance):
    stack = build_stack(world, experiments)
    fast = {m.round: m.state.X_nld.clone() for m in simulate(stack) if m.phase == "end"}
    # A round's W is the same for all lanes of a fleet: the loop asks for it once, not in each lane.
    with patch.object(Fleet, "matrix", cache(Fleet.matrix)):
        for lane, experiment in enumerate(stack.experiments):
            for t, X in enumerate(trajectory(world, experiment)):
                apart = (fast[t + 1][:, lane] - X).abs().max()
                assert apart <= tolerance * X.abs().max(), (experiment.server, t, apart)
