"""Studies: what is kept of runs, and that keeping loses nothing that matters."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry_paper.study import (
    FACTORS,
    StudyData,
    build_study,
    factors_of,
    final_column,
    join_studies,
    last_20_column,
)


def history(values: dict[int, float]) -> dict[str, np.ndarray]:
    rounds = np.array(sorted(values))
    return {"round": rounds, "own_accuracy": np.array([values[r] for r in rounds])}


@pytest.fixture
def study() -> StudyData:
    runs = [
        (
            Experiment.parse({}, [f"seed={seed}", f"server.primitive={name}", "rounds=100"]),
            history({0: 10.0, 80: 50.0, 84: 60.0 + seed, 100: 70.0 + seed}),
            "finished",
        )
        for seed in range(8)
        for name in ("s2s", "s2a")
    ]
    return build_study("made-up", {"command": "none"}, runs, curves=["own_accuracy"])


def test_a_row_has_the_last_value_and_the_mean_of_the_last_rounds(study):
    """Round 80 is not among the last 20 of 100: they are 81 to 100."""
    row = study.runs.iloc[2]
    assert row[final_column("own_accuracy")] == 71
    assert row[last_20_column("own_accuracy")] == 66


def test_a_study_read_back_is_the_study(study, tmp_path):
    path = tmp_path / "data" / "study.json"
    study.save(path)
    found = StudyData.load(path)
    assert (found.name, found.about) == (study.name, study.about)
    pd.testing.assert_frame_equal(found.runs, study.runs, check_dtype=False)
    pd.testing.assert_frame_equal(found.curves, study.curves, check_dtype=False)


def test_five_digits_are_kept_and_gaps_stay_gaps(tmp_path):
    """0.001 of a percentage point; what was not measured stays unmeasured."""
    values = np.linspace(12.345678, 98.7654321, 50)
    frame = pd.DataFrame({"seed": range(50), "own_accuracy final": values})
    frame.loc[3, "own_accuracy final"] = np.nan
    StudyData("s", {}, frame, pd.DataFrame({"run": [], "round": []})).save(tmp_path / "s.json")
    found = StudyData.load(tmp_path / "s.json").runs["own_accuracy final"].to_numpy()
    assert np.isnan(found[3])
    known = np.arange(50) != 3
    assert np.abs(found - values)[known].max() < 1e-3


def test_a_run_that_diverged_has_a_row_without_scores():
    """It is no finished run that happens to be missing; its curve ends where it went astray."""
    runs = [
        (Experiment.parse({}, ["rounds=100"]), history({0: 10.0, 100: 70.0}), "finished"),
        (Experiment.parse({}, ["rounds=100", "seed=1"]), history({0: 10.0, 8: 90.0}), "diverged"),
    ]
    study = build_study("made-up", {}, runs, curves=["own_accuracy"])
    assert study.diverged["seed"].tolist() == [1]
    assert np.isnan(study.diverged[final_column("own_accuracy")]).all()
    assert study.curves.loc[study.curves["run"] == 1, "round"].tolist() == [0, 8]
    assert study.of(seed=0).diverged.empty


def test_a_slice_keeps_its_curves(study):
    part = study.of(primitive="s2a", seed=[1, 2])
    assert len(part.runs) == 2
    assert set(part.curves["run"]) == set(part.runs.index)


def test_joined_parts_are_the_whole(study):
    """Seeds from two machines, one of them on both: every run once, with its own curve."""
    halves = [study.of(seed=[0, 1, 2, 3]), study.of(seed=[3, 4, 5, 6, 7])]
    whole = join_studies(
        [replace(part, about={"command": f"on {i}"}) for i, part in enumerate(halves)]
    )
    order = ["seed", "primitive"]
    found, known = (one.runs.sort_values(order, ignore_index=True) for one in (whole, study))
    pd.testing.assert_frame_equal(found, known)
    for row in range(len(known)):
        ours, theirs = (
            one.curves[one.curves["run"] == one.runs.sort_values(order).index[row]]["own_accuracy"]
            for one in (whole, study)
        )
        assert ours.tolist() == theirs.tolist()
    assert whole.about["seeds"] == list(range(8))
    assert whole.about["runs"] == {"finished": 16}
    assert whole.about["command"] == "on 0 and on 1"


def test_profiles_are_not_mixed(study):
    """Quick runs are looked at less often, on fewer samples."""
    parts = [replace(study, about={"profile": name}) for name in ("quick", "full")]
    with pytest.raises(RecordsError, match="different profiles"):
        join_studies(parts)


def test_factors_use_the_words_of_the_paper():
    settings = ["data.intra=dirichlet", "data.inter=iid", "server.sampled=40", "server.period=15"]
    factors = factors_of(Experiment.parse({}, settings))
    assert tuple(factors) == FACTORS
    found = {name: factors[name] for name in ("intra", "inter", "share", "period")}
    assert found == {"intra": "non-iid", "inter": "iid", "share": 0.4, "period": 15}


def test_a_missing_or_foreign_file_says_what_to_do(tmp_path):
    with pytest.raises(RecordsError, match=r"there is no study in .*skerry reproduce"):
        StudyData.load(tmp_path / "none.json")
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(RecordsError, match="is not a study"):
        StudyData.load(tmp_path / "other.json")
