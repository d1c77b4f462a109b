"""Any GRPO log as one :class:`History`, and what its rules find in it. Loads no torch."""
