"""The eight pitfalls as living tests: each is run with its fault put in on purpose, and beside it its mended twin.

A pitfall passes only if Evenhand names it (before the run, in it or after it) and names nothing of the kind on the
twin. Every run is a process of its own, called as a user would call it, on the embedded model.
"""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file

from evenhand.diagnosis.readers import read_history
from evenhand.diagnosis.signals import uniform_share
from evenhand.errors import EvenhandError, LogError

Stage = Literal["preflight", "run"]
TIMEOUT = 900  # seconds for one command; the longest takes about 60 on two cores


@dataclass(frozen=True, slots=True)
class Pitfall:
    """A fault with its mended twin.

    ``named`` are codes that must be found with the fault and not on the twin, by where they are found; ``run`` is the
    watchdog's and the diagnosis' word together. ``shares`` is the number of a pitfall whose runs are looked at again.
    """

    number: int
    title: str
    configuration: str
    symptom: str
    mechanism: str
    remedy: str
    named: Mapping[Stage, tuple[str, ...]]
    shares: int | None = None
    device: str | None = None


PITFALLS: tuple[Pitfall, ...] = (
    Pitfall(
        1,
        "Steps taken for epochs, and updates that round to nothing",
        "1-updates-swallowed",
        "Gradients and rewards look healthy, and nothing is learned however long one waits.",
        "A BF16 number has eight significant bits. An update smaller than half a unit in its last place is rounded "
        "away, and without an FP32 copy of the weights it is lost. 40 steps of four prompts are 0.08 epochs, not 40.",
        "Keep the weights in FP32, or raise the learning rate until the probe sees them move; plan in prompts.",
        {"preflight": ("updates-swallowed",), "run": ("updates-swallowed",)},
    ),
    Pitfall(
        2,
        "A learning rate that moves the matrices and never the norms",
        "2-norms-frozen",
        "A higher learning rate changes a quarter of each matrix, and the norm weights stay exactly as they were.",
        "Norm weights lie near 1, where the unit in the last place of BF16 is 0.0078: hundreds of times the update.",
        'Keep the norms in FP32: `[precision] norms = "float32"`. They are a ten-thousandth of the weights.',
        {"preflight": ("norm-weights-frozen-by-bf16",)},
    ),
    Pitfall(
        3,
        "A penalty that flattens the group, then collapse",
        "3-outlier-collapse",
        "Entropy falls by orders of magnitude, every group becomes uniform, loss and gradient are exactly zero.",
        "One completion at -114514 makes the group's standard deviation so large that right and wrong answers differ "
        "by less than rounding. The only lesson left is to avoid the penalty; the policy settles on one answer, groups "
        "have no spread, and no later step can change it.",
        "Bound the reward, lower the learning rate, keep a KL or an entropy term; go back to a checkpoint before it.",
        {
            "preflight": ("reward-outlier-flattens-group", "reward-unbounded-below-illegal"),
            "run": ("collapsed-identical-rollouts",),
        },
    ),
    Pitfall(
        4,
        "Accuracy stands still while the weights move",
        "4-paid-for-the-middle",
        "Dev accuracy stays where it was for a hundred steps although gradient and predictions change.",
        "The reward pays for being near, so the middle earns nearly as much as the truth, and the reward that asks for "
        "right answers is weighted 0. Predictions move from one wrong answer to another.",
        "Let preflight say what the best constant answer earns; weigh the goal; look at the prediction distribution.",
        {
            "preflight": ("reward-weight-zero", "constant-answer-pays"),
            "run": ("accuracy-flat-while-weights-move",),
        },
    ),
    Pitfall(
        5,
        "Format taken for ability",
        "4-paid-for-the-middle",
        "Format validity stands near 100 %, and the run looks like a success.",
        "That an answer can be read does not make it right. Format is learned first and then has nothing left to give.",
        "Read ability from the goal's term and from a held-out score, never from sampled training rewards.",
        {"run": ("format-saturated",)},
        shares=4,
    ),
    Pitfall(
        6,
        "The output form changed, and the completion limit did not",
        "6-form-outgrew-limit",
        "Every completion is as long as the limit, none ends by itself, and the answer is never right.",
        "Lines per number need 55 tokens; the limit is still the 8 of a single integer, so the answer line is cut off.",
        "Set the limit from the longest right answer, and check parser and rewards whenever the form changes.",
        {"preflight": ("completion-budget-too-small",), "run": ("truncated-before-answer",)},
    ),
    Pitfall(
        7,
        "A checkpoint that is not what was trained",
        "7-requantised",
        "A reloaded model scores differently from the run that saved it, or small updates stop arriving.",
        "Loading a checkpoint in BF16 drops the FP32 norms it was trained with, and saving it again makes that final.",
        "Reload each tensor at the dtype in which it was saved; compare dtypes of model and checkpoint.",
        {"run": ("dtype-changed-on-save",)},
    ),
    Pitfall(
        8,
        "A device that is not seen, and the message that is believed",
        "6-form-outgrew-limit-mended",
        "The program says that there is no GPU, and the machine is taken for one without.",
        "This process cannot use the device: PyTorch was built without it, a sandbox hides it, or the interpreter is "
        "another one than was meant. That is not the same as not having it.",
        "Read which of these it is; start the interpreter that was meant, outside the sandbox, or train on the CPU.",
        {"preflight": ("device-not-usable",)},
        device="absent",
    ),
)


@dataclass(slots=True)
class Side:
    """What was found on one side: code -> message, by stage; and figures of its run."""

    found: dict[Stage, dict[str, str]] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """A pitfall and both of its sides."""

    pitfall: Pitfall
    fault: Side
    mended: Side

    def missed(self) -> list[str]:
        """Codes that should have been found with the fault and were not."""
        return [code for stage, code in self.expected() if code not in self.fault.found.get(stage, {})]

    def false_alarms(self) -> list[str]:
        """Codes that were found on the mended twin."""
        return [code for stage, code in self.expected() if code in self.mended.found.get(stage, {})]

    def expected(self) -> list[tuple[Stage, str]]:
        """Every code that the pitfall is to be named by."""
        return [(stage, code) for stage, codes in self.pitfall.named.items() for code in codes]

    @property
    def passed(self) -> bool:
        """Named, and silent on the twin."""
        return not self.missed() and not self.false_alarms()

    def to_json(self) -> dict[str, Any]:
        """For ``evenhand pitfalls --json``."""
        return {
            "number": self.pitfall.number,
            "title": self.pitfall.title,
            "passed": self.passed,
            "expected": [code for _, code in self.expected()],
            "missed": self.missed(),
            "false_alarms": self.false_alarms(),
            "figures": {"fault": self.fault.figures, "mended": self.mended.figures},
        }


Say = Callable[[str], None]


def run_pitfalls(numbers: Sequence[int], folder: Path, say: Say) -> Iterator[Result]:
    """Run the pitfalls of these numbers, all if there are none; ``folder`` receives their run folders."""
    chosen = [one for one in PITFALLS if not numbers or one.number in numbers]
    for pitfall in chosen:
        sides = [look_at(pitfall, mended, folder, say) for mended in (False, True)]
        yield Result(pitfall, *sides)


def look_at(pitfall: Pitfall, mended: bool, folder: Path, say: Say) -> Side:
    """One side: preflight and a run, as far as the pitfall asks for them."""
    side = Side()
    name = "mended" if mended else "fault"
    if "preflight" in pitfall.named:
        say(f"pitfall {pitfall.number}, {name}: preflight")
        side.found["preflight"] = preflight(pitfall, mended)
    if "run" in pitfall.named:
        place = folder / f"{pitfall.shares or pitfall.number}-{name}"
        if not place.exists():
            say(f"pitfall {pitfall.number}, {name}: training")
            train(configuration(pitfall, mended), place)
            if pitfall.configuration == "7-requantised" and not mended:
                requantise(place)
        side.found["run"] = diagnosed(place)
        side.figures = figures(place)
    return side


def configuration(pitfall: Pitfall, mended: bool) -> Path:
    """The shipped file of a side; a pitfall whose fault is not in its configuration has one for both."""
    shipped = Path(str(resources.files("evenhand"))) / "configs" / "pitfalls"
    twin = shipped / f"{pitfall.configuration}-mended.toml"
    return twin if mended and twin.is_file() else shipped / f"{pitfall.configuration}.toml"


def preflight(pitfall: Pitfall, mended: bool) -> dict[str, str]:
    """Warnings and stops of ``evenhand preflight``."""
    device = ["--device", "cpu" if mended else absent_device()] if pitfall.device else []
    answer = evenhand("preflight", str(configuration(pitfall, mended)), *device, "--json")
    return alarms(json.loads(answer))


def absent_device() -> str:
    """A device that this process cannot use, for real."""
    return "cuda" if torch.backends.mps.is_available() else "mps"


def train(source: Path, place: Path) -> None:
    """A real run. It may end early: the watchdog is on."""
    evenhand("train", str(source), "--no-preflight", "--out", str(place), "--json")


def requantise(place: Path) -> None:
    """What loading the last checkpoint in BF16 and saving it again leaves."""
    for path in sorted(place.glob("checkpoints/checkpoint-*/model.safetensors")):
        save_file({name: weight.to(torch.bfloat16) for name, weight in load_file(path).items()}, path)


def diagnosed(place: Path) -> dict[str, str]:
    """What the watchdog told during the run and ``evenhand diagnose`` tells after it, notes included."""
    report = json.loads(evenhand("diagnose", str(place), "--json"))
    found = {one["code"]: one["message"] for one in report["findings"]}
    told = place / "findings.jsonl"
    lines = told.read_text(encoding="utf-8").splitlines() if told.is_file() else []
    return {one["code"]: one["message"] for one in map(json.loads, lines) if one["stage"] == "training"} | found


def alarms(report: Mapping[str, Any]) -> dict[str, str]:
    """Warnings and stops of a report."""
    return {one["code"]: one["message"] for one in report["findings"] if one["severity"] in {"warn", "stop"}}


def evenhand(*arguments: str) -> str:
    """Standard output of a command, run as a process of its own.

    Raises:
        EvenhandError: it failed, rather than found something (exit code 1).
    """
    environment = {**os.environ, "COLUMNS": "120"}
    command = [sys.executable, "-m", "evenhand", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=False)
    if done.returncode not in {0, 1} or not done.stdout.strip():
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise EvenhandError(f"evenhand {' '.join(arguments)} failed: {last[0]}", "Run that command by itself.")
    return done.stdout


def figures(place: Path) -> dict[str, str]:
    """First and last values of what tells the story of a run."""
    try:
        history = read_history(place)
    except LogError:
        return {}
    shown: dict[str, str] = {"steps": f"{history.steps[-1]:.0f}"}
    series = {
        "reward": history.get("reward"),
        "entropy": history.get("entropy"),
        "uniform groups": uniform_share(history),
        "gradient norm": history.get("grad_norm"),
    }
    for name, one in series.items():
        if len(one):
            shown[name] = f"{one.values[0]:.3g} → {one.values[-1]:.3g}"
    if history.evaluations:
        first, last = history.evaluations[0], history.evaluations[-1]
        for metric, value in last.metrics.items():
            shown[f"dev {metric}"] = f"{first.metrics[metric]:.0%} → {value:.0%}"
        answer, count = max(last.predictions.items(), key=lambda pair: pair[1])
        shown["most frequent answer at the end"] = f'"{answer}" for {count} of {last.n}'
    return shown


# -- the page --------------------------------------------------------------------------------------------------------

PAGE_HEAD = """\
<!-- Written by `evenhand pitfalls --page docs/pitfalls.md`, from the runs that it made. -->

# Eight pitfalls

Each was put into a real run of the embedded model on purpose, beside a mended twin; what Evenhand said is quoted from
that run. `evenhand pitfalls` repeats them all, `evenhand pitfalls 3` one. Their configurations lie in
`src/evenhand/configs/pitfalls/`.
"""


def page(results: Sequence[Result]) -> str:
    """``docs/pitfalls.md``."""
    return PAGE_HEAD + "".join(section(result) for result in results)


def wrapped(paragraph: str) -> str:
    """A paragraph at the width of the other pages."""
    return textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def section(result: Result) -> str:
    """Symptom, mechanism, what Evenhand says, remedy, figures."""
    pitfall = result.pitfall
    said = [
        f"- {'before the run' if stage == 'preflight' else 'in the run or after it'}, `{code}`: "
        f"{result.fault.found.get(stage, {}).get(code, 'not named')}"
        for stage, code in result.expected()
    ]
    parts = [
        f"\n## {pitfall.number}. {pitfall.title}\n",
        wrapped(f"**Symptom.** {pitfall.symptom}"),
        wrapped(f"**Mechanism.** {pitfall.mechanism}"),
        "**What Evenhand says.**\n",
        "\n".join(said) + "\n",
        f"On the mended twin: {', '.join(result.false_alarms()) or 'nothing of the kind'}.\n",
        wrapped(f"**Remedy.** {pitfall.remedy}"),
    ]
    keys = [*result.fault.figures, *(key for key in result.mended.figures if key not in result.fault.figures)]
    if keys:
        rows = [
            f"| {key} | {result.fault.figures.get(key, '')} | {result.mended.figures.get(key, '')} |" for key in keys
        ]
        parts.append("\n".join(["| first → last | with the fault | mended |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)
