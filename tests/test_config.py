"""A configuration is a file plus flags; all of its faults are reported at once, with near matches."""

import tomllib

import pytest

from evenhand.config import RunConfig, draft, finish, parse_assignment, shipped_configurations
from evenhand.errors import ConfigurationError


def test_the_shipped_configurations_have_no_faults():
    assert {"embedded", "qwen3-0.6b", "smollm2-135m"} <= set(shipped_configurations())
    for name in shipped_configurations():
        assert isinstance(finish(draft(name)), RunConfig)


def test_qwen_has_the_reference_s_values():
    config = finish(draft("qwen3-0.6b"))
    expected = {
        "max_steps": 100, "per_device_train_batch_size": 8, "num_generations": 8, "gradient_accumulation_steps": 4,
        "num_iterations": 1, "max_completion_length": 192, "learning_rate": 3e-6, "bf16": True, "beta": 0.02,
        "entropy_coef": 0.01, "reward_weights": [1.0, 1.0, 0.5], "optim": "adamw_torch",
        "gradient_checkpointing": True,
        "torch_empty_cache_steps": 1, "dataloader_pin_memory": False, "logging_steps": 1, "seed": 42,
        "report_to": "none", "save_steps": 10,
    }  # fmt: skip
    assert dict(config.train) == expected
    assert (config.precision.body, config.precision.norms) == ("bfloat16", "float32")
    assert (config.evaluation.every, config.evaluation.batch_size) == (10, 4)


def test_flags_override_the_file_and_trl_s_fields_need_no_table_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[train]\nlearning_rate = 1e-5\n[evaluation]\nevery = 7\n")
    config = finish(draft(path, {"learning_rate": 2e-5, "evaluation.every": 3, "train.seed": 1}))
    assert config.train == {"learning_rate": 2e-5, "seed": 1}
    assert config.evaluation.every == 3


def test_the_resolved_configuration_gives_itself_again():
    config = finish(draft("qwen3-0.6b"))
    assert RunConfig.model_validate(tomllib.loads(config.to_toml())) == config


def test_every_fault_is_reported_at_once_with_near_matches():
    drafted = draft(None, {"device": "cdua", "evaluation.evry": 2, "precision.body": "float31"})
    with pytest.raises(ConfigurationError) as caught:
        finish(drafted, faults=["train.x: no."])
    text = str(caught.value)
    assert "4 faults" in text
    for part in ("'cuda'", "'every'", "'float32'", "train.x"):
        assert part in text


def test_a_missing_file_names_the_shipped_ones():
    with pytest.raises(ConfigurationError, match="qwen3-0.6b"):
        draft("nowhere.toml")


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe\x00", b"[train\n"])
def test_a_file_that_is_no_toml_is_one_clear_error(tmp_path, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"bad\.toml"):
        draft(path)


def test_a_directory_is_no_configuration(tmp_path):
    with pytest.raises(ConfigurationError):
        draft(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate=1e-5", 1e-5),
        ("device=cpu", "cpu"),
        ("reward_weights=[1, 0, 0.5]", [1, 0, 0.5]),
        ("bf16=True", True),
        ("bf16=false", False),
        ("note=a=b", "a=b"),
    ],
)
def test_assignments_are_read_as_toml_or_as_text(text, expected):
    assert parse_assignment(text)[1] == expected


def test_an_assignment_without_a_value_is_refused():
    with pytest.raises(ConfigurationError):
        parse_assignment("seed")


def test_a_table_given_as_a_value_is_a_fault_and_no_crash():
    with pytest.raises(ConfigurationError, match="train"):
        finish(draft(None, {"train": 3, "precision": "float32"}))
