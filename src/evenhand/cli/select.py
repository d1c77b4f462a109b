"""``evenhand select``."""

from evenhand.cli import options
from evenhand.cli.output import print_json, stderr, stdout, table


def select(run: options.RunPath, as_json: options.AsJson = False) -> None:
    """Choose a checkpoint by the rule that the run's configuration wrote down, and say how sure the choice is."""
    from evenhand.runfolder import RunFolder  # noqa: PLC0415 - keeps `evenhand --help` quick
    from evenhand.selection import choose, save  # noqa: PLC0415 - loads SciPy

    folder = RunFolder.open(run)
    selection = choose(folder)
    status = folder.read_json("status.json") or {}
    if status.get("state") in {"starting", "running"}:
        stderr().print("This run is not finished: the choice is not recorded and may change.")
    else:
        save(folder, selection)
    if as_json:
        print_json(selection.to_json())
        return
    out = stdout()
    for sentence in (*selection.sentences(), f"Rule: {selection.rule}."):
        out.print(sentence, markup=False)
    rows = [
        [
            str(comparison.step),
            f"{comparison.value:.1%}",
            f"{comparison.difference.value:+.1%}",
            "{:+.1%} to {:+.1%}".format(*comparison.difference.interval),
            f"{comparison.difference.p:.2g}",
            "" if comparison.difference.beyond_noise else "within noise",
        ]
        for comparison in selection.comparisons
    ]
    looks = len((folder.read_json("test.json") or {}).get("records", ()))
    if looks > 1:
        out.print(f"Test was looked at {looks} times, so its result is no longer that of problems nobody tuned on.")
    if rows:
        columns = ("step", selection.metric, "beside the best", "95 % interval", "p", "")
        out.print(table("Other saved checkpoints, on the same problems", columns, rows))
