"""A study says in what its arms differ, and is held to it."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from evenhand.ablation.study import Study, read_study, shipped_studies, trials_of
from evenhand.errors import ConfigurationError

PLAIN: dict[str, Any] = {
    "name": "rates",
    "question": "Does the learning rate matter?",
    "varies": ["train.learning_rate"],
    "seeds": [1, 2, 3],
    "reference": "low",
    "set": {"train": {"max_steps": 4}},
    "arms": {"low": {"train.learning_rate": 1e-5}, "high": {"train": {"learning_rate": 1e-4}}},
}


def study_file(folder: Path, **changes: Any) -> str:
    path = folder / "study.toml"
    path.write_text(tomli_w.dumps({**PLAIN, **changes}))
    return str(path)


def test_every_arm_meets_every_seed(tmp_path: Path) -> None:
    trials = trials_of(read_study(study_file(tmp_path)))
    assert [trial.name for trial in trials][:3] == ["low/seed-1", "high/seed-1", "low/seed-2"]
    assert len(trials) == 6
    assert {trial.config.train["max_steps"] for trial in trials} == {4}
    assert [trial.config.train["learning_rate"] for trial in trials[:2]] == [1e-5, 1e-4]
    assert [trial.config.train["seed"] for trial in trials[::2]] == [1, 2, 3]


@pytest.mark.parametrize("name", shipped_studies())
def test_shipped_studies_of_the_embedded_model_have_three_seeds_and_none_a_fault(name: str) -> None:
    study = read_study(name)
    assert len(study.seeds) >= (3 if study.configuration == "embedded" else 2)
    assert len(trials_of(study)) == len(study.arms) * len(study.seeds)


def test_a_setting_from_the_command_line_holds_for_every_arm(tmp_path: Path) -> None:
    study = read_study(study_file(tmp_path), shared={"max_steps": 2, "evaluation.every": 1, "model": "elsewhere"})
    assert study.shared == {"train.max_steps": 2, "evaluation.every": 1, "model": "elsewhere"}
    assert {trial.config.train["max_steps"] for trial in trials_of(study)} == {2}
    for key in ("learning_rate", "train.learning_rate", "seed"):
        with pytest.raises(ConfigurationError, match=rf"--set (train\.)?{key}: every arm has its own"):
            read_study(study_file(tmp_path), shared={key: 1})
    with pytest.raises(ConfigurationError, match="set"):
        read_study(study_file(tmp_path, set=3), shared={"max_steps": 2})


def test_an_arm_that_differs_in_more_than_it_declares_is_refused(tmp_path: Path) -> None:
    arms = {**PLAIN["arms"], "odd": {"train.learning_rate": 1e-4, "train.beta": 0.5}}
    with pytest.raises(ConfigurationError, match=r"arms\.odd: sets train\.beta, which 'varies' does not declare"):
        read_study(study_file(tmp_path, arms=arms))


def test_another_arm_may_be_the_reference_if_it_is_one(tmp_path: Path) -> None:
    assert read_study(study_file(tmp_path), "high").reference == "high"
    with pytest.raises(ConfigurationError, match="'middle' is none of the arms"):
        read_study(study_file(tmp_path), "middle")


def test_the_seed_is_no_arm_and_all_faults_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_study(study_file(tmp_path, varies=["train"], reference="absent", seeds=[1, 1]))
    for part in ("'absent' is none of the arms", "a seed stands twice", "the seed is what repeats an arm"):
        assert part in str(caught.value)


def test_a_wrong_setting_of_any_arm_is_found_before_the_first_run(tmp_path: Path) -> None:
    arms = {"low": {}, "x": {"train.learning_rat": 1}}
    study = read_study(study_file(tmp_path, varies=["train.learning_rat"], arms=arms))
    with pytest.raises(ConfigurationError, match=r"arms\.x: .*Did you mean 'learning_rate'"):
        trials_of(study)


def test_no_study_no_toml_and_unknown_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no study absent"):
        read_study("absent")
    (tmp_path / "broken.toml").write_text("name = ")
    with pytest.raises(ConfigurationError, match="does not read"):
        read_study(str(tmp_path / "broken.toml"))
    with pytest.raises(ConfigurationError, match="unknown key"):
        read_study(study_file(tmp_path, sed=1))


def test_a_study_is_written_down_as_it_was_read(tmp_path: Path) -> None:
    study = read_study(study_file(tmp_path))
    assert Study.model_validate(study.model_dump(mode="json", by_alias=True)) == study


def test_a_measure_until_needs_a_metric_of_every_arm_and_a_bound(tmp_path: Path) -> None:
    until = {"metric": "fully_correct", "at_least": 0.9}
    assert len(trials_of(read_study(study_file(tmp_path, until=until)))) == 6
    wrong = study_file(tmp_path, until={**until, "metric": "fully_corect"})
    with pytest.raises(ConfigurationError, match=r"arms\.low\. Did you mean 'fully_correct'"):
        trials_of(read_study(wrong))
    faults = ({"metric": "fully_correct"}, {**until, "at_least": 1.5}, {**until, "at_last": 1})
    for fault, told in zip(faults, ("until.at_least", "until.at_least = 1.5", "Did you mean 'at_least'"), strict=True):
        with pytest.raises(ConfigurationError, match=told):
            read_study(study_file(tmp_path, until=fault))
