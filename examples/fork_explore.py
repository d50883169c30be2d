"""Fork on explore: three ways of cleaning a data set, each in its own copy of a live interpreter.

The copies share the parent's variables. The best one by a hidden sample is kept and draws the plot.

Run it: python examples/fork_explore.py
It saves the plot as fork_explore.svg in the current directory.
"""

from __future__ import annotations

import math
from typing import Callable

from pandastack import Candidate, Sandbox

LOAD = """
import csv, statistics
cells = [row["celsius"] for row in csv.DictReader(open("/data/sensor.csv"))]
readings = [float(cell) if cell else None for cell in cells]

# Every ninth reading is hidden. Who guesses these well guesses the real gaps well too.
hidden = {hour: readings[hour] for hour in range(4, len(readings), 9) if readings[hour]}
for hour in hidden:
    readings[hour] = None

def error():
    return statistics.mean(abs(clean[hour] - value) for hour, value in hidden.items())
"""

WAYS = {
    "zero": "clean = [value or 0.0 for value in readings]",
    "mean": """
middle = statistics.mean(value for value in readings if value is not None)
clean = [middle if value is None else value for value in readings]
""",
    "interpolate": """
known = [hour for hour, value in enumerate(readings) if value is not None]
def between(hour):
    left = max((one for one in known if one <= hour), default=known[0])
    right = min((one for one in known if one >= hour), default=known[-1])
    share = (hour - left) / (right - left) if right > left else 0
    return readings[left] + share * (readings[right] - readings[left])
clean = [between(hour) for hour in range(len(readings))]
""",
}

# SVG is only text, so this runs in every template. Where matplotlib is installed, `run` returns
# figures as pictures: see `Execution.png`.
PLOT = """
def points(values):
    return " ".join(f"{10 + 8 * x},{150 - 5 * y:.1f}" for x, y in values)
gaps = [hour for hour, value in enumerate(readings) if value is None]
dots = "".join(f'<circle cx="{10 + 8 * x}" cy="{150 - 5 * clean[x]:.1f}" r="3"/>' for x in gaps)
with open("/data/plot.svg", "w") as file:
    file.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 160">')
    file.write('<rect width="600" height="160" fill="white"/>')
    file.write(f'<polyline points="{points(enumerate(clean))}" fill="none" stroke="steelblue"/>')
    file.write(f'<g fill="darkorange">{dots}</g></svg>')
"""


def sensor_csv() -> str:
    """Three days of temperatures. The sensor failed in some hours."""
    lines = ["hour,celsius"]
    for hour in range(72):
        celsius = 15 + 8 * math.sin((hour - 9) * math.pi / 12)
        failed = hour % 24 in {6, 13, 14, 15} or 40 <= hour <= 44
        lines.append(f"{hour}," if failed else f"{hour},{celsius:.2f}")
    return "\n".join(lines) + "\n"


def attempt(code: str) -> Callable[[Sandbox], float]:
    def clean(copy: Sandbox) -> float:
        copy.run(code, language="python", check=True)
        return float(copy.run("print(error())", check=True).stdout)

    return clean


def main() -> None:
    with Sandbox(template="code-interpreter") as sandbox:
        sandbox.filesystem.write("/data/sensor.csv", sensor_csv())
        sandbox.run(LOAD, language="python", check=True)

        result = sandbox.explore(
            [Candidate.call(name, attempt(code)) for name, code in WAYS.items()],
            score_fn=lambda copy, outcome: outcome.value,
            select="min",
            capture_files=False,
        )
        assert result.winner
        assert result.winner_outcome
        for outcome in result.outcomes:
            print(f"{outcome.label:<12} is wrong by {outcome.score:5.2f} degrees")
        print(f"kept: {result.winner_outcome.label}; deleted: {len(result.reaped)} copies")

        with result.winner as winner:
            winner.run(PLOT, language="python", check=True)
            winner.filesystem.download("/data/plot.svg", "fork_explore.svg")
        print("the plot is in fork_explore.svg")


if __name__ == "__main__":
    main()
