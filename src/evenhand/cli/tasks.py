"""``evenhand tasks``."""

from evenhand.cli.options import AsJson
from evenhand.cli.output import print_json, stderr, stdout, table


def tasks(as_json: AsJson = False) -> None:
    """List the tasks, and say how to add one."""
    from evenhand.tasks import TASKS  # noqa: PLC0415 - only this command needs them

    if as_json:
        print_json([{"name": task.name, "version": task.version, "summary": task.summary} for task in TASKS])
        return
    rows = [
        [task.name, task.summary, ", ".join(f"{reward.name} ×{reward.weight:g}" for reward in task.rewards)]
        for task in TASKS
    ]
    stdout().print(table("Tasks", ("name", "what is asked", "rewards"), rows))
    stderr().print("To add one: a file in evenhand/tasks/, as tasks/task.py says, and an entry in TASKS.")
