"""A row of the data, as a reward and a model see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.records import Message

Prompt = str | tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What the model is asked, the columns beside it, and a right answer where one is known.

    ``near_misses`` and ``blind`` are texts that the task itself offers: corrupted gold, and answers that know nothing.
    """

    prompt: Prompt
    columns: Mapping[str, Any]
    gold: str | None = None

    @property
    def asked(self) -> str:
        """The last message: what differs from one problem to the next."""
        if isinstance(self.prompt, str):
            return self.prompt
        return str(self.prompt[-1].get("content", "")) if self.prompt else ""

    @property
    def whole(self) -> str:
        """Every message, joined."""
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n".join(str(message.get("content", "")) for message in self.prompt)
