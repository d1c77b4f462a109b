"""Generate, forward and backward of a small model on a device, as a process of its own: some backends abort.

``python -m evenhand.preflight.device_trial DEVICE`` ends with 0 where all went well.
"""

import sys

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from evenhand.preflight.child import run_to_end

TIME_LIMIT = 120.0


def try_device(device: str) -> str:
    """Empty where the device did everything, otherwise how the child process ended."""
    return run_to_end([sys.executable, "-m", "evenhand.preflight.device_trial", device], TIME_LIMIT)


def generate_forward_backward(device: str) -> None:
    """A group of left-padded prompts of different lengths, as a rollout has them, then a loss over the result."""
    config = Qwen3Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        pad_token_id=0,
        eos_token_id=1,
    )
    model = Qwen3ForCausalLM(config).to(device)  # type: ignore[arg-type]
    prompts = torch.randint(2, 64, (4, 7), device=device)
    mask = torch.ones_like(prompts)
    mask[0, :3] = 0
    written = model.generate(input_ids=prompts, attention_mask=mask, max_new_tokens=5, do_sample=True)
    logits = model(input_ids=written).logits
    logits.float().log_softmax(-1).mean().backward()
    torch.ones(1, device=device).sum().item()  # waits for the device


if __name__ == "__main__":
    generate_forward_backward(sys.argv[1])
