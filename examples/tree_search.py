"""Tree search over a coding task: a model proposes programs, tests score them, copies keep them.

Best-first search. Every node is a sandbox, and its children are forks of it, so a bad idea costs
nothing: the search just goes back to a node that is still alive. `promote` keeps the winner.

With a model:     OPENAI_API_KEY=... python examples/tree_search.py
With a recording: python examples/_model/play.py tree_search
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from openai import OpenAI

from pandastack import ForkTree, Sandbox

WIDTH = 3  # children of a node
EXPANSIONS_MAX = 5
CASES = {1: "I", 3: "III", 4: "IV", 8: "VIII", 9: "IX", 40: "XL", 90: "XC", 1994: "MCMXCIV"}

START = "def roman(number):\n    return 'I' * number\n"
CHECK = f"""
from task import roman
for number, wanted in {CASES!r}.items():
    got = roman(number)
    print("ok" if got == wanted else f"roman({{number}}) is {{got}}, not {{wanted}}")
"""
PROMPT = """Improve this program. It passes {passed} of {total} tests.
{code}
What fails:
{failures}
Answer with the whole program, without any other text."""


@dataclass
class Node:
    """A machine with one version of the program, and what the tests say about it."""

    name: str
    sandbox: Sandbox
    tree: ForkTree[Sandbox] | None
    code: str
    passed: int
    failures: str


def propose(model: OpenAI, node: Node) -> list[str]:
    prompt = PROMPT.format(
        code=node.code, passed=node.passed, total=len(CASES), failures=node.failures
    )
    answer = model.chat.completions.create(
        model="gpt-4.1", messages=[{"role": "user", "content": prompt}], n=WIDTH, temperature=1
    )
    return [choice.message.content or "" for choice in answer.choices]


def evaluate(name: str, sandbox: Sandbox, code: str, tree: ForkTree[Sandbox] | None = None) -> Node:
    sandbox.filesystem.write("/work/task.py", code)
    result = sandbox.exec("python3 check.py", cwd="/work", timeout_seconds=30)
    lines = (result.stdout + result.stderr).splitlines()
    failures = "\n".join(line for line in lines if line != "ok")
    return Node(name, sandbox, tree, code, lines.count("ok"), failures)


def expand(model: OpenAI, node: Node) -> list[Node]:
    programs = propose(model, node)
    tree = node.sandbox.fork_tree(len(programs))
    names = [f"{node.name}.{number}" for number in range(1, len(tree) + 1)]
    with ThreadPoolExecutor(WIDTH) as pool:
        return list(pool.map(evaluate, names, tree, programs, [tree] * len(tree)))


def search(model: OpenAI, root: Node) -> tuple[Node, list[Node]]:
    """Returns the best node, and all nodes that are still alive."""
    alive, open_nodes = [root], [root]
    for _ in range(EXPANSIONS_MAX):
        node = max(open_nodes, key=lambda one: one.passed)
        open_nodes.remove(node)
        children = expand(model, node)
        scores = ", ".join(f"{child.name}: {child.passed}" for child in children)
        print(f"expand {node.name:<8} ({node.passed}/{len(CASES)}) -> {scores}")
        alive += children
        open_nodes += children
        if any(child.passed == len(CASES) for child in children):
            break
    return max(alive, key=lambda one: one.passed), alive


def main() -> None:
    with Sandbox(template="code-interpreter") as sandbox:
        sandbox.filesystem.write("/work/check.py", CHECK)
        root = evaluate("root", sandbox, START)
        best, alive = search(OpenAI(), root)
        if best.tree:
            gone = best.tree.promote(best.sandbox, cleanup_siblings=True)["deleted"]
            print(f"promoted {best.name}, deleted its {len(gone)} siblings")
        for node in alive:
            if node.tree and node.tree is not best.tree:
                node.sandbox.close()
        print(best.sandbox.filesystem.read("/work/task.py"))
        best.sandbox.close()


if __name__ == "__main__":
    main()
