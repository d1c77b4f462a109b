"""The legacy task ``integer-count``: the problems of ``stepwise-parity``, asked for as a single integer."""

from collections.abc import Sequence

from evenhand.records import Message

SYSTEM_PROMPT = "Count the even numbers in the input list. Reply with exactly one integer and nothing else."


def messages(numbers: Sequence[int]) -> tuple[Message, ...]:
    """The system prompt, then the list. The embedded model's cold start knows this wording."""
    question = f"Numbers: {list(numbers)}\nHow many of them are even?"
    return ({"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question})
