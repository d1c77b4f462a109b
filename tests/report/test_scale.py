"""A long run: 1000 steps of 32 completions, chosen from, diagnosed and shown in seconds, without torch."""

import json
import subprocess
import sys
from pathlib import Path

from tests.made_runs import Plan, make_run

LOOK = """
import json, sys, time
from pathlib import Path
from evenhand.diagnosis.diagnose import diagnose
from evenhand.diagnosis.readers import read_history
from evenhand.report import write
from evenhand.runfolder import RunFolder
from evenhand.selection import choose
start, folder = time.process_time(), RunFolder.open(Path(sys.argv[1]))
choose(folder)
diagnose(read_history(folder.path))
page = write([folder], folder.path / "report.html")
# Not ru_maxrss: it begins with the peak of the process that started this one.
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
print(json.dumps({
    "seconds": time.process_time() - start,
    "gigabytes": peak / 1e6,
    "bytes": page.stat().st_size,
    "torch": "torch" in sys.modules,
}))
"""


def test_a_thousand_steps_of_thirty_two_completions(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Plan(steps=1000, every=10, save=10, groups=4, group_size=8))
    done = subprocess.run([sys.executable, "-c", LOOK, str(folder.path)], capture_output=True, check=True, text=True)
    measured = json.loads(done.stdout)
    assert measured["seconds"] < 10
    assert measured["gigabytes"] < 1
    assert measured["bytes"] < 5_000_000
    assert not measured["torch"]
