"""The Chinese README keeps step with the English one: headings, commands, links and the annotated tree."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def levels(text: str) -> list[int]:
    """The depth of every heading outside code, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", BLOCK.sub("", text), re.MULTILINE)]


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """(language, lines) of every code block; comments are left out, of the tree only names and levels are kept."""
    found = []
    for language, body in BLOCK.findall(text):
        tree = body.startswith("src/")
        cut = re.compile(r"^(\s*\S+(?:\s+\d)?).*$" if tree else r"\s*(?:(?<=\s)#.*)?$")
        lines = [cut.sub(r"\1" if tree else "", line).rstrip() for line in body.splitlines()]
        found.append((language, lines))
    return found


def test_the_same_headings_in_the_same_order() -> None:
    assert levels(CHINESE) == levels(ENGLISH)


def test_the_same_commands_and_the_same_tree() -> None:
    assert blocks(CHINESE) == blocks(ENGLISH)


def test_the_same_links_and_inline_commands() -> None:
    def links(text: str) -> set[str]:
        return set(re.findall(r"\]\(([^)]+)\)", text)) - {"README.md", "README.zh-CN.md"}

    def commands(text: str) -> set[str]:
        inline = re.findall(r"`([^`]+)`", BLOCK.sub("", text))
        return {" ".join(one.split()) for one in inline if one.startswith(("evenhand ", "make ", "pip "))}

    assert links(CHINESE) == links(ENGLISH)
    assert commands(CHINESE) == commands(ENGLISH)
