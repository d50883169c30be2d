"""A CI matrix by fork: prepare one machine, copy it for each cell, run all cells at once.

Checkout and installation happen once. Each cell has a machine of its own, so cells cannot disturb
each other. This matrix finds two bugs that the default settings hide.

Run it: python examples/ci_matrix.py
"""

from __future__ import annotations

import asyncio
import itertools

from pandastack import AsyncSandbox, ExecResult

PROJECT = {
    "shop.py": """
import time

def tags(title):
    return " ".join({word.lower() for word in title.split()})

def delivery_day(timestamp):
    return time.strftime("%Y-%m-%d", time.localtime(timestamp))
""",
    "test_shop.py": """
import unittest
from shop import delivery_day, tags

class ShopTest(unittest.TestCase):
    def test_tags(self):
        self.assertEqual(tags("Green Tea"), "green tea")

    def test_delivery_day(self):
        self.assertEqual(delivery_day(1_800_043_200), "2027-01-15")
""",
}

SEEDS = ["1", "2"]  # of the hashes of texts, which decide the order of a set
ZONES = ["UTC", "Asia/Tokyo"]


async def run_cell(copy: AsyncSandbox, seed: str, zone: str) -> ExecResult:
    settings = {"PYTHONHASHSEED": seed, "TZ": zone}
    return await copy.exec("python3 -m unittest", cwd="/ci", env=settings, timeout_seconds=120)


async def main() -> None:
    async with AsyncSandbox(template="base") as sandbox:
        for name, text in PROJECT.items():
            await sandbox.filesystem.write(f"/ci/{name}", text)
        # Everything slow happens once, before the fork: git clone, npm ci, a first test run.
        await run_cell(sandbox, SEEDS[0], ZONES[0])

        cells = list(itertools.product(SEEDS, ZONES))
        tree = await sandbox.fork_tree(len(cells))
        try:
            work = (run_cell(copy, *cell) for copy, cell in zip(tree, cells, strict=True))
            results = dict(zip(cells, await asyncio.gather(*work), strict=True))
        finally:
            await tree.aclose()

    print(f"{'hash seed':<12}" + "".join(f"{zone:<12}" for zone in ZONES))
    for seed in SEEDS:
        marks = ("passed" if results[seed, zone].ok else "FAILED" for zone in ZONES)
        print(f"{seed:<12}" + "".join(f"{mark:<12}" for mark in marks))
    for (seed, zone), result in results.items():
        for line in result.stderr.splitlines():
            if line.startswith("FAIL:"):
                print(f"seed {seed}, {zone}: {line.split()[1]}")


if __name__ == "__main__":
    asyncio.run(main())
