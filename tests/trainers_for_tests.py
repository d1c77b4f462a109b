"""Trainers of a small random model, whose completions are given rather than sampled."""

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig


class KeepGradients(TrainerCallback):
    """Gradients of every optimiser step, by parameter."""

    def __init__(self):
        self.steps = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.steps.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})


def prompt(number):
    """Its length tells its number."""
    return "Numbers:" + " 1" * number


def number_of(text):
    return text.count(" 1")


def even_ones_vary(prompts, completions, log_extra=None, **_):
    """Completions of prompts with an odd number are all paid alike."""
    numbers = [number_of(text) for text in prompts]
    if log_extra is not None:
        log_extra("number", numbers)
    return [1.0 if number % 2 else float(row % 4) for row, number in enumerate(numbers)]


class Written:
    """Row i of a rollout says i mod 4, after a stem as long as its prompt asks for."""

    def _generate_single_turn(self, prompt_ids, *_, **__):
        end = self.processing_class.eos_token_id
        return [[*[12] * (len(ids) % 5), 20 + row % 4, 30, end] for row, ids in enumerate(prompt_ids)], None


def settings(output, **changes):
    """One step of two groups of four, without a KL penalty and without an entropy bonus."""
    chosen = {
        "output_dir": str(output),
        "max_steps": 1,
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_completion_length": 8,
        "beta": 0.0,
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "seed": 1,
        "max_grad_norm": 0.0,
    }
    return GRPOConfig(**{**chosen, **changes})


def build(kind, model, output, reward, numbers=range(1, 9), options=None, **changes):
    """A trainer with :func:`settings` on prompts that name ``numbers``."""
    return kind(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=reward,
        args=settings(output, **changes),
        train_dataset=Dataset.from_list([{"prompt": prompt(number)} for number in numbers]),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        **(options or {}),
    )
