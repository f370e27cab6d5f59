"""Measures of a user's own are recorded and shown like the built-in ones."""

import pytest
import torch

import skerry
from conftest import small as small_experiment
from skerry.analysis.results import read_studies
from skerry.config.measures import traits
from skerry.errors import SkerryError
from skerry.report.page.build import write_report
from skerry.report.screens.run import summary_table


def drift(models, context):
    """How far the farthest device is from the average."""
    return (models - models.mean(dim=0)).norm(dim=1).max()


def right_share(models, context):
    """Of all devices, those that get more than a third right."""
    right = context.outputs(models).argmax(dim=-1) == context.y_test
    return (right.float().mean(dim=1) > 1 / 3).float().mean()


def stands(models, context):
    assert models.shape[0] == len(context.devices)
    return context.round + 100 * context.number


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    asked = small_experiment("evaluate.every=2").replace(
        evaluate={"own": [drift, right_share, stands]}
    )
    return folder, skerry.run(asked, compare=["s2s", "s2a"], seeds=2, out=folder)


def test_they_are_measured_when_others_are(study):
    _, results = study
    lane = results[0]
    seen = lane.history["stands"][~torch.tensor(lane.history["stands"]).isnan().numpy()]
    assert seen.tolist() == [0, 102, 204, 206, 307]  # rounds done, server rounds before
    assert results.of("s2a").final("drift").max() > 0
    assert 0 <= lane.final["right_share"] <= 1


def test_they_are_recorded_and_shown(study, tmp_path):
    folder, results = study
    frame = skerry.load(folder)
    assert {"drift", "right_share", "stands"} <= set(frame.columns)
    assert read_studies(folder)[0].final("drift").tolist() == results.final("drift").tolist()
    assert skerry.results(folder, "drift") is not None
    assert "drift" in [str(column.header) for column in summary_table(results).columns]
    page = tmp_path / "page.html"
    write_report(folder, page)
    assert "right_share" in page.read_text() or "right share" in page.read_text()


def test_a_name_tells_which_way_is_better():
    assert traits("drift").lower_is_better
    assert not traits("right_share").lower_is_better


def test_their_source_is_part_of_the_key(small):
    def drift_of(power):
        def drift(models, context):
            return models.abs().pow(power).mean()

        return drift

    one, same, other = (small().replace(evaluate={"own": drift_of(power)}) for power in (1, 1, 2))
    assert one.key() == same.key() != other.key()
    assert one.world_key() != other.world_key()
    assert small().key() == small("evaluate.own=[]").key()


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (["own_accuracy"], "Built-in ones go into evaluate.measures"),
        ([drift, lambda models, context: 0.0, lambda models, context: 1.0], "called lambda"),
        (["nowhere:drift"], "cannot be imported"),
    ],
)
def test_wrong_names_are_told(small, own, told):
    with pytest.raises(SkerryError, match=told):
        small().replace(evaluate={"own": own})


def test_more_than_one_number_is_told(small):
    def norms(models, context):
        return models.norm(dim=1)

    with pytest.raises(SkerryError, match=r"must give one number .* of shape \(12,\)"):
        skerry.run(small().replace(evaluate={"own": norms}))


def test_what_fails_is_told_in_a_line(small):
    def broken(models, context):
        return models.nothing

    with pytest.raises(SkerryError, match=r"measure 'given:broken@.* failed"):
        skerry.run(small().replace(evaluate={"own": broken}))
