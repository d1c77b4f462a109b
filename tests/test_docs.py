"""Documentation names commands, options, links and configuration keys that exist."""

import re
import tomllib
from pathlib import Path

import pytest
import typer

from evenhand.ablation.study import Study
from evenhand.cli import application

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"])
COMMAND = re.compile(r"(?:^\s*|`|-m )evenhand ([a-z]+)([^`\n#]*)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


def commands() -> dict[str, set[str]]:
    """Every command with its options, those of sub-commands included."""
    group = typer.main.get_group(application)
    found = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", {}).values()
        options = {word for one in (command, *inner) for parameter in one.params for word in parameter.opts}
        found[name] = options
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    known = commands()
    for name, rest in COMMAND.findall(page.read_text(encoding="utf-8")):
        assert name in known, f"evenhand {name}"
        unknown = [word for word in re.findall(r"(?<!\S)(--[a-z-]+)", rest) if word not in known[name]]
        assert not unknown, f"evenhand {name} {rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_study_in_the_docs_is_one() -> None:
    text = (ROOT / "docs" / "reading-a-run.md").read_text(encoding="utf-8")
    block = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert block is not None
    assert len(Study.model_validate(tomllib.loads(block[1])).arms) == 2
