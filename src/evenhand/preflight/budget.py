"""Closed-form estimates of memory and disk."""

from evenhand.preflight.setup import Model, Settings

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
GIB = 2**30


def as_gib(size: float) -> str:
    """Bytes in GiB, two significant digits."""
    return f"{size / GIB:.2g}" if size < 10 * GIB else f"{size / GIB:.0f}"


def weight_bytes(model: Model) -> int:
    """The weights as they are kept."""
    counts = [(dtype, count) for by_dtype in model.dtypes.values() for dtype, count in by_dtype.items()]
    return sum(BYTES.get(dtype, 4) * count for dtype, count in counts)


def checkpoint_bytes(model: Model) -> int:
    """Weights and Adam's two moments, each at the weights' dtype, as they are saved."""
    return 3 * weight_bytes(model)


def memory_parts(model: Model, settings: Settings) -> dict[str, int]:
    """Bytes by part at the peak of an update.

    weights + gradients + 2 moments (each at the weights' dtype); the reference policy where beta > 0; logits of one
    micro-batch three times over (values, log-softmax, gradient) in FP32; activations of about 17 widths a token and
    layer (34 bytes × width in half precision: Korthikanti et al. 2022, attention scores left out), or one width with
    gradient checkpointing; keys and values of the completions being sampled.
    """
    weights = weight_bytes(model)
    body = BYTES.get(settings.body, 4)
    limit = int(settings.number("max_completion_length", 512))
    length = model.prompt_tokens + limit
    per_device = settings.micro_batch // max(settings.processes, 1)
    checkpointing = settings.train.get("gradient_checkpointing") is True
    per_token = model.layers * model.width * body * (1 if checkpointing else 17)
    sampled = settings.generation_batch // max(settings.processes, 1)
    parts = {
        "weights": weights,
        "gradients": weights,
        "Adam's moments": 2 * weights,
        "reference policy": weights if settings.number("beta", 0.0) > 0 else 0,
        "logits": 3 * 4 * per_device * limit * model.vocabulary,
        "activations": per_device * length * per_token,
        "sampling cache": sampled * length * model.layers * model.heads_width * body,
    }
    return {name: size for name, size in parts.items() if size}
