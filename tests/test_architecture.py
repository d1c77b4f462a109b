"""The rules of the layout, read off the source: levels, where TRL and torch may be imported, the README's tree."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "evenhand"
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))

# Lower levels know nothing of higher ones. A folder stands for everything in it. The README shows the same numbers.
LEVELS = {
    "errors": 0,
    "records": 1,
    "config": 1,
    "intervals": 1,
    "paired": 1,
    "environment": 1,
    "runfolder": 2,
    "tasks": 2,
    "rewards": 3,
    "credit": 4,
    "models": 2,
    "lessons": 5,
    "diagnosis": 3,
    "selection": 3,
    "prefixtree": 3,
    "evaluation": 4,
    "scoring": 5,
    "training": 5,
    "preflight": 6,
    "ablation": 6,
    "report": 6,
    "testing": 6,
    "watch": 6,
    "checklist": 6,
    "bench": 6,
    "pitfalls": 6,
    "reference": 7,
    "cli": 8,
    "__main__": 9,
    "__init__": 9,
}
WITHOUT_TORCH = {
    *("errors", "records", "config", "intervals", "paired", "environment", "runfolder", "tasks", "rewards", "credit"),
    *("diagnosis", "selection", "report", "watch", "checklist"),
}
# Libraries that take longer to load than a command that does not need them may wait.
HEAVY = {
    "accelerate", "datasets", "gguf", "numpy", "pandas", "peft", "ray", "rich", "safetensors", "scipy", "torch",
    "transformers", "trl",
}  # fmt: skip


def part_of(path):
    """``tasks`` for anything in that folder, the name of a file beside it."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(path, inside_functions=True):
    """(module, line) of every import of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if inside_functions else tree.body
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                deeper = node.module == "evenhand" or (PACKAGE / part_path(node.module) / f"{alias.name}.py").exists()
                yield (f"{node.module}.{alias.name}" if deeper else str(node.module)), node.lineno


def part_path(module):
    return Path(*str(module).split(".")[1:])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_lower_levels_or_its_own_folder(path):
    own = part_of(path)
    for module, line in imports(path):
        if not module.startswith("evenhand."):
            continue
        other = module.split(".")[1]
        if own in {"__main__", "__init__"} or other == own:
            continue
        assert LEVELS[other] < LEVELS[own], f"{path.name}:{line} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_inside_functions_are_of_what_a_command_must_not_load(path):
    if part_of(path) in {"cli", "__main__", "__init__"}:
        return  # the command line loads everything late, so that --help answers at once
    top = set(imports(path, inside_functions=False))
    for module, line in set(imports(path)) - top:
        assert module.split(".")[0] in HEAVY, f"{path.name}:{line} hides an import of {module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_trl_is_imported_only_where_it_is_driven_or_timed(path):
    if part_of(path) in {"training", "bench"}:
        return
    assert not [module for module, _ in imports(path) if module.split(".")[0] == "trl"]


def test_trl_is_subclassed_in_one_file_and_where_it_is_timed():
    def subclasses_trainer(path):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        return any("GRPOTrainer" in ast.unparse(base) for node in classes for base in node.bases)

    assert [path.name for path in MODULES if subclasses_trainer(path)] == ["timed.py", "trainer.py"]


@pytest.mark.parametrize("part", sorted(WITHOUT_TORCH))
def test_parts_that_look_at_a_run_load_no_torch(part):
    if not (PACKAGE / part).exists() and not (PACKAGE / f"{part}.py").exists():
        pytest.fail(f"{part} does not exist")
    code = f"import sys, evenhand.{part}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_loads_no_torch():
    code = "import sys, evenhand.cli; sys.exit(bool({'torch', 'scipy', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_part_has_a_level():
    assert {part_of(path) for path in MODULES} <= LEVELS.keys()


def test_the_readme_s_tree_names_every_part_and_nothing_else():
    tree = re.search(r"```text\nsrc/evenhand/\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    lines = re.finditer(r"^  (\S+?)(?:/|\.py)? +(\d?) ", tree[1], re.MULTILINE)
    levels = {match[1]: match[2] for match in lines}
    assert all(level == str(LEVELS[part]) for part, level in levels.items() if part != "configs")
    named = set(levels)
    there = {part_of(path) for path in MODULES} - {"__init__", "__main__"} | {"configs"}
    assert named == there


def test_no_file_is_named_for_nothing_in_particular():
    assert not {path.name for path in MODULES} & {"utils.py", "helpers.py", "common.py", "misc.py"}
