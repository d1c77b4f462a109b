"""``evenhand bench``."""

from typing import Annotated, Any

import typer

from evenhand.cli import options
from evenhand.cli.output import print_json, stderr, stdout, table


def bench(
    model: options.ModelName = None,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="How often both are measured, in turn.")] = 5,
    evaluation: Annotated[bool, typer.Option("--evaluation", help="Also a whole greedy dev evaluation.")] = False,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="The shape: completions=made, overlap=0.5, group=16 …"),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Rollout, scoring, update and whole step against stock TRL: seconds, memory and how far results agree.

    Every run is a process of its own, on the same prompts and completions. Leave the machine alone meanwhile.
    """
    from evenhand import bench as benching  # noqa: PLC0415 - loads torch
    from evenhand.config import parse_assignment  # noqa: PLC0415

    changes = dict(parse_assignment(text) for text in assignments or ())
    shape = benching.Shape.of(changes | ({"model": model} if model else {}))
    result = benching.bench(shape, pairs, evaluation, lambda line: stderr().print(line, markup=False))
    if as_json:
        print_json(result)
        return
    stdout().print(table(title(result), ("", "stock TRL", "Evenhand", "ratio"), rows(result)))
    stdout().print(
        f"log-probabilities differ by at most {result['logprob_max_error']:.1e}, "
        f"a gradient by {result['gradient_relative_error']:.1e} of its size"
    )


def title(result: dict[str, Any]) -> str:
    """What was measured, in a line."""
    shape = result["shape"]
    return (
        f"{result['model']}, {result['dtype']}, {shape['device']}: {shape['prompts']} prompts × {shape['group']} "
        f"completions, {shape['positions']} positions, {shape['distinct_positions']} distinct; "
        f"medians of {shape['pairs']}"
    )


def rows(result: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """A row for each phase, for memory, and for the evaluation where it was measured."""
    stock, tree, ratio = result["stock"], result["evenhand"], result["ratio"]
    found = [
        (phase.replace("_", " "), f"{stock[phase]:.2f} s", f"{tree[phase]:.2f} s", f"{ratio[phase]:.2f}")
        for phase in ratio
        if phase != "peak_memory"
    ]
    of_stock, of_tree = (f"{kind['peak_memory'] / 1e9:.2f} GB" for kind in (stock, tree))
    found.append(("peak memory", of_stock, of_tree, f"{ratio['peak_memory']:.2f}"))
    if "evaluation" in result:
        asked = result["evaluation"]
        of_stock, of_tree = (f"{asked[kind]['evaluation']:.2f} s" for kind in ("stock", "evenhand"))
        found.append(("evaluation", of_stock, of_tree, f"{asked['ratio']:.2f}"))
    return found
