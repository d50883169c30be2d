"""A test run in parallel by fork: load the fixture once, then split the tests over copies.

The copies begin with the test modules imported and the database filled. Tests that change the data
cannot disturb those of another copy, so they need no clean-up.

Run it: python examples/parallel_tests.py
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pandastack import Sandbox

COPIES = 3

FILES = {
    "shop.py": """
import sqlite3
database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, price INTEGER, stock INTEGER)")
rows = ((number, number * 10, 5) for number in range(1, 2_001))
database.executemany("INSERT INTO products VALUES (?, ?, ?)", rows)

def one(query):
    return database.execute(query).fetchone()[0]
""",
    "test_prices.py": """
import shop, unittest
class Prices(unittest.TestCase):
    def test_average(self):
        self.assertEqual(shop.one("SELECT avg(price) FROM products"), 10_005)
    def test_sale(self):
        shop.database.execute("UPDATE products SET price = price / 2")
        self.assertEqual(shop.one("SELECT max(price) FROM products"), 10_000)
""",
    "test_stock.py": """
import shop, unittest
class Stock(unittest.TestCase):
    def test_sold_out(self):
        shop.database.execute("UPDATE products SET stock = 0 WHERE id = 7")
        self.assertEqual(shop.one("SELECT count(*) FROM products WHERE stock = 0"), 1)
    def test_never_negative(self):
        shop.database.execute("UPDATE products SET stock = stock - 6 WHERE id = 8")
        self.assertGreaterEqual(shop.one("SELECT min(stock) FROM products"), 0)
""",
    "test_search.py": """
import shop, unittest
class Search(unittest.TestCase):
    def test_count(self):
        self.assertEqual(shop.one("SELECT count(*) FROM products"), 2_000)
    def test_cheapest(self):
        self.assertEqual(shop.one("SELECT id FROM products ORDER BY price LIMIT 1"), 1)
""",
}

RUNNER = """
import json, sys, unittest
sys.path.insert(0, "/tests")

def cases(suite):
    for item in suite:
        yield from cases(item) if isinstance(item, unittest.TestSuite) else [item]

found = {case.id(): case for case in cases(unittest.defaultTestLoader.discover("/tests"))}

def run(names):
    result = unittest.TestResult()
    unittest.TestSuite(found[name] for name in names).run(result)
    bad = {case.id(): text.splitlines()[-1] for case, text in result.failures + result.errors}
    return json.dumps({name: bad.get(name, "passed") for name in names})
"""


def run_shard(copy: Sandbox, names: list[str]) -> dict[str, Any]:
    return json.loads(copy.run(f"print(run({names!r}))", check=True).stdout)


def main() -> None:
    with Sandbox(template="code-interpreter") as sandbox:
        for name, text in FILES.items():
            sandbox.filesystem.write(f"/tests/{name}", text)
        sandbox.run(RUNNER, language="python", check=True)
        names = json.loads(sandbox.run("print(json.dumps(sorted(found)))", check=True).stdout)
        shards = [names[first::COPIES] for first in range(COPIES)]

        tree = sandbox.fork_tree(COPIES)
        try:
            with ThreadPoolExecutor(COPIES) as pool:
                reports = list(pool.map(run_shard, tree.branches, shards))
        finally:
            tree.close()

    results = {name: text for report in reports for name, text in report.items()}
    for name in names:
        print(f"{name:<40} {results[name]}")
    failed = sum(text != "passed" for text in results.values())
    print(f"{len(results)} tests in {COPIES} copies, {failed} failed")


if __name__ == "__main__":
    main()
