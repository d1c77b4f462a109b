"""What all tests share."""

import os

from hypothesis import settings

# No hub, as on the command line; set before any test imports a library that reads them.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Examples are drawn the same way on every machine, and a slow machine is no failure.
settings.register_profile("evenhand", deadline=None, derandomize=True)
settings.load_profile("evenhand")
