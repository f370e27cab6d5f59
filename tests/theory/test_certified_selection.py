"""Certified bounds under the rules of `server.selection`."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from skerry.errors import SkerryError
from skerry.theory import operators
from skerry.theory.bounds import bound, guaranteed_average
from skerry.theory.certified import best_blend, certified_average, certified_rounds
from skerry.theory.counts import law_of_counts
from skerry.theory.full_recursion import FullRecursion
from skerry.theory.operators import Pi_C
from skerry.theory.parameters import Parameters
from skerry.theory.participation import exchange_under
from skerry.theory.rounds_and_messages import ask

FIGURE = Parameters(100, 2, 20, 5, 0.5, 0.1, 0.1, 0, 1, 1, 1e-3)


@pytest.mark.parametrize(
    ("zeta_intra", "zeta_inter", "uniform", "per_component"),
    [
        (0.1, 0.1, ("2.289e+06", "5.069e+05"), ("2.191e+06", "3.718e+05")),
        (1, 0.1, ("3.762e+06", "5.606e+06"), ("3.702e+06", "5.471e+06")),
        (0.1, 1, ("2.238e+07", "2.037e+07"), ("2.139e+07", "2.911e+06")),
        (1, 1, ("2.279e+07", "2.503e+07"), ("2.182e+07", "6.675e+06")),
    ],
)
def test_certified_rounds(zeta_intra, zeta_inter, uniform, per_component):
    """S2S and S2A, to the four digits of an independent computation."""
    for selection, printed in (("uniform", uniform), ("per_component", per_component)):
        x = replace(FIGURE, zeta_intra=zeta_intra, zeta_inter=zeta_inter, selection=selection)
        found = (certified_rounds(x, one, convex=False).rounds for one in ("s2s", "s2a"))
        assert tuple(f"{rounds:.3e}" for rounds in found) == printed


@pytest.mark.parametrize("sizes", [(50, 50), (3, 7, 10), (5,), (1, 1, 1)])
def test_uniform_is_computed_as_it_always_was(sizes):
    """Bit for bit: kappa for both parts, and the exchange matrix."""
    n = sum(sizes)
    for K, beta in product((1, 2, n), (0.0, 0.3, 1.0)):
        x = replace(FIGURE, devices=n, components=sizes, sampled=K)
        recursion = FullRecursion(x, beta, convex=False)
        assert recursion.kappa == beta**2 * float(operators.kappa(n, K))
        assert recursion.kappa_shares.tolist() == [1, 1]
        np.testing.assert_array_equal(recursion.M, operators.exchange_matrix(sizes, K, beta))


@pytest.mark.parametrize("primitive", ["s2s", "s2a", "blend"])
def test_where_all_rules_are_one(primitive):
    """Everybody sampled, and a single island: the rule does not matter."""
    everybody = replace(FIGURE, sampled=100)
    alone = replace(FIGURE, components=1)
    for x, rules in (
        (everybody, ("per_component", "one_each", "bernoulli")),
        (alone, ("per_component", "one_each")),
    ):
        usual = certified_rounds(x, primitive, convex=False).rounds
        for rule in rules:
            ours = certified_rounds(replace(x, selection=rule), primitive, convex=False)
            assert ours.rounds == pytest.approx(usual, rel=1e-9)


def test_all_of_the_way_to_everybody():
    """If islands agree at once, the best blend under per_component is S2A, and there is no bias."""
    x = replace(FIGURE, p=1.0, zeta_intra=0.0, zeta_inter=1.0, selection="per_component")
    best = best_blend(x, convex=False)
    assert best.beta == 1
    assert best.terms["sampling_inter"] == pytest.approx(0, abs=1e-12)
    assert best_blend(replace(x, selection="uniform"), convex=False).beta < 1


# An exact test bench: f_i = (x - b_i)^2/2 on six devices, W = (I + Pi_C)/2.
TARGETS = np.array([1.0, 2.0, 3.0, 6.0, 9.0, 4.0])


def samples(rule, sizes, K):
    """Every sample that a rule can draw: its chance, its devices, their weights for S2A."""
    islands = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    for chance, counts in law_of_counts(rule, sizes, K):
        drawn = [list(combinations(at, k)) for at, k in zip(islands, counts, strict=True)]
        ways = list(product(*drawn))
        for parts in ways:
            S = [device for part in parts for device in part]
            weights = np.full(len(S), 1 / len(S)) if S else np.empty(0)
            if rule == "one_each":
                each = [[size / sum(sizes) / k] * k for size, k in zip(sizes, counts, strict=True)]
                weights = np.concatenate(each)
            yield chance / len(ways), S, weights


def served(S, weights, n, beta):
    """Rows are devices: (1 - beta) of what S2S makes of the models, beta of what S2A does."""
    if not S:
        return np.eye(n)
    s2s, s2a = np.eye(n), np.zeros((n, n))
    s2s[S] = 0
    s2s[np.ix_(S, S)] = 1 / len(S)
    s2a[:, S] = weights
    return (1 - beta) * s2s + beta * s2a


def exact_errors(rule, sizes, K, H, beta, eta, rounds):
    """E f(xbar) - f* at t = 0..rounds-1 over every sample: second moments of (x, 1)."""
    n = len(TARGETS)
    W = (np.eye(n) + Pi_C(sizes)) / 2
    step = np.eye(n + 1)
    step[:n, :n] = (1 - eta) * W
    step[:n, n] = eta * W @ TARGETS
    drawn = []
    for chance, S, weights in samples(rule, sizes, K):
        act = np.eye(n + 1)
        act[:n, :n] = served(S, weights, n, beta)
        drawn.append((chance, act))
    moments = np.zeros((n + 1, n + 1))
    moments[n, n] = 1
    errors = []
    for t in range(rounds):
        mean = TARGETS.mean()
        xx, x = moments[:n, :n], moments[:n, n]
        errors.append((xx.mean() - 2 * mean * x.mean() + mean**2) / 2)
        moments = step @ moments @ step.T
        if t % H == 0:
            moments = sum(chance * act @ moments @ act.T for chance, act in drawn)
    return np.array(errors)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("rule", "sizes", "K"),
    [
        ("per_component", (3, 3), 2),
        ("per_component", (3, 3), 3),
        ("per_component", (2, 4), 4),
        ("per_component", (1, 2, 3), 2),
        ("one_each", (2, 4), 2),
        ("one_each", (1, 2, 3), 3),
        ("bernoulli", (2, 4), 2),
    ],
)
def test_exact_averages_stay_below_the_certificate(rule, sizes, K, beta):
    """On quadratics, over every sample that the rule can draw, at every horizon looked at."""
    W, mean = (np.eye(6) + Pi_C(sizes)) / 2, TARGETS.mean()
    islands = TARGETS @ Pi_C(sizes)
    x = Parameters(
        devices=6,
        components=sizes,
        sampled=K,
        period=3,
        p=0.75,
        zeta_intra=np.sqrt(np.mean((TARGETS @ (W - Pi_C(sizes))) ** 2)),
        zeta_inter=np.sqrt(np.mean((islands - mean) ** 2)),
        sigma2=0,
        smoothness=1,
        initial_error=mean**2,
        epsilon=1,
        selection=rule,
    )
    for eta in (0.02, 0.1, 0.25):
        errors = exact_errors(rule, sizes, K, 3, beta, eta, 120)
        for rounds in (1, 2, 4, 20, 120):
            case = {"beta": beta, "stepsize": eta, "rounds": rounds}
            assert errors[:rounds].mean() <= certified_average(x, "blend", convex=True, **case)
            slopes = certified_average(
                replace(x, initial_error=mean**2 / 2), "blend", convex=False, **case
            )
            assert 2 * errors[:rounds].mean() <= slopes


def test_a_certificate_tells_by_which_rule():
    """What uniform sampling allowed to say is not said of other rules."""
    said = {
        rule: " ".join(
            certified_rounds(replace(FIGURE, selection=rule), "s2a", convex=False).assumptions
        )
        for rule in ("uniform", "per_component", "one_each", "bernoulli")
    }
    assert "sampled uniformly without replacement" in said["uniform"]
    assert "delta and kappa" not in said["uniform"] + said["bernoulli"]
    for rule in ("per_component", "one_each", "bernoulli"):
        assert rule in said[rule]
        assert "uniformly without replacement" not in said[rule]
    assert "delta and kappa hold for uniform sampling alone" in said["per_component"]
    assert "upper bound" not in said["per_component"]
    unequal = replace(FIGURE, components=(30, 70), selection="per_component")
    assert "upper bound" in " ".join(certified_rounds(unequal, "s2s", convex=False).assumptions)
    stratified = replace(FIGURE, sampled=21, selection="per_component", weights="stratified")
    found = certified_rounds(stratified, "s2a", convex=False)
    assert "weighs islands by their size" in " ".join(found.assumptions)
    assert (
        found.rounds
        < certified_rounds(replace(stratified, weights="equal"), "s2a", convex=False).rounds
    )


def test_one_device_on_average_is_not_one_device():
    """S2S with K = 1 has no certificate, but where devices come by coins there are often two."""
    one = replace(FIGURE, sampled=1)
    for rule in ("uniform", "per_component"):
        found = certified_rounds(replace(one, selection=rule), "s2s", convex=False)
        assert "one sampled device" in found.reason
    coins = certified_rounds(replace(one, selection="bernoulli"), "s2s", convex=False)
    assert np.isfinite(coins.rounds)


def test_the_theorems_are_about_uniform_sampling():
    """Other modes refuse other rules, and the theory those without a law, in one line."""
    for field in ({"selection": "per_component"}, {"weights": "stratified"}):
        x = replace(FIGURE, **field)
        for mode in ("order", "printed", "repaired"):
            with pytest.raises(
                SkerryError, match="theorems assume that devices are sampled uniformly"
            ):
                ask(x, "s2s", mode, convex=False)
        with pytest.raises(SkerryError, match="certified"):
            bound(x, "s2a", "order", convex=True)
        with pytest.raises(SkerryError, match="certified"):
            guaranteed_average(x, "s2a", "repaired", True, stepsize=0.1, rounds=10)
    for rule in ("round_robin", "weighted", "importance", "my_package.module:rule"):
        with pytest.raises(SkerryError, match="no law of counts"):
            replace(FIGURE, selection=rule)
    with pytest.raises(SkerryError, match="unknown kind of weights 'data_step'"):
        replace(FIGURE, weights="data_step")


def test_json_names_the_rule_only_where_it_is_not_the_usual_one():
    assert not {"selection", "weights"} & ask(FIGURE, "s2s", "order", False).to_json().keys()
    row = ask(replace(FIGURE, selection="one_each"), "s2a", "certified", False).to_json()
    assert row["selection"] == "one_each"
    assert "weights" not in row


def test_exchanges_are_computed_once():
    """A search over beta asks for the same rule again and again."""
    exchange_under.cache_clear()
    best_blend(replace(FIGURE, selection="bernoulli"), convex=False)
    assert exchange_under.cache_info().misses == 1
