"""``evenhand models``: which models are known, and ``evenhand models build`` for those that are not downloaded."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.output import print_json, stderr, stdout, table
from evenhand.errors import ModelError
from evenhand.models import MODELS, known_model

app = typer.Typer(invoke_without_command=True)


@app.callback()
def models(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """What can be named for --model, and where it lies."""
    if context.invoked_subcommand is not None:
        return
    rows = [
        {
            "name": model.name,
            "built": model.built,
            "directory": str(model.directory),
            "summary": model.summary,
            "planted": model.planted,
        }
        for model in MODELS
    ]
    if as_json:
        print_json(rows)
        return
    columns = ("name", "ready", "what", "directory")
    shown = [
        (str(row["name"]), "yes" if row["built"] else "build it", str(row["summary"]), str(row["directory"]))
        for row in rows
    ]
    stdout().print(table("Models", columns, shown))
    for model in MODELS:
        if model.planted:
            stdout().print(f"\n{model.name}: {model.planted}")
    stdout().print(
        "\nAny local directory with config.json, tokenizer.json and model.safetensors does too, such as"
        " --model models/Qwen3-0.6B."
        "\nBuild one with: evenhand models build NAME. Nothing is ever fetched from a hub."
    )


@app.command()
def build(
    name: Annotated[str, typer.Argument(help="embedded or smollm2-135m.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write it there instead of its usual place.")] = None,
) -> None:
    """Build the embedded model from its recipe, or convert SmolLM2 to safetensors."""
    known = known_model(name)
    if known is None:
        raise ModelError(f"There is no model named '{name}' to build.", f"Known: {', '.join(m.name for m in MODELS)}.")
    directory = out or known.directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
        build_into(name, directory)
    except OSError as error:
        raise ModelError(
            f"{directory} cannot be written ({error.strerror}).", "Name another place with --out."
        ) from error
    stdout().print(str(directory))


def build_into(name: str, directory: Path) -> None:
    """Run the recipe of a known model."""
    if name == "embedded":
        from evenhand.lessons import build_embedded  # noqa: PLC0415 - loads torch

        build_embedded(directory, lambda line: stderr().print(line))
    else:
        from evenhand.models.smollm2 import convert  # noqa: PLC0415 - loads torch

        stderr().print("converting; this takes about a minute")
        convert(directory)
