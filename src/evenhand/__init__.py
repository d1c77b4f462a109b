"""Evenhand: train small language models with GRPO on your own machine, and know whether to believe the numbers."""
