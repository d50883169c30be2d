"""OpenAI Agents SDK: a coding agent whose tools work in a sandbox.

The sandbox is the context of the run, so tools get it without globals and the model never sees it.

With a model:     OPENAI_API_KEY=... python examples/openai_agents.py
With a recording: python examples/_model/play.py openai_agents
"""

from __future__ import annotations

import asyncio

from agents import Agent, RunContextWrapper, Runner, function_tool

from pandastack import AsyncSandbox

BROKEN = """\
def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
"""
TEST = """\
from stats import median
assert median([3, 1, 2]) == 2
assert median([4, 1, 2, 3]) == 2.5, f"median([4, 1, 2, 3]) is {median([4, 1, 2, 3])}, not 2.5"
print("all tests pass")
"""


@function_tool
async def run_command(context: RunContextWrapper[AsyncSandbox], command: str) -> str:
    """Run a shell command in the project's directory, and return its output."""
    result = await context.context.exec(command, cwd="/project", timeout_seconds=60)
    output = (result.stdout + result.stderr).strip()
    print(f"$ {command}\n{output}\n")
    return f"exit code {result.exit_code}\n{output}"


@function_tool
async def write_file(context: RunContextWrapper[AsyncSandbox], path: str, text: str) -> str:
    """Replace a file of the project."""
    await context.context.filesystem.write(f"/project/{path}", text)
    print(f"wrote {path}\n")
    return f"wrote {path}"


async def main() -> None:
    agent = Agent[AsyncSandbox](
        name="Fixer",
        instructions="You fix Python projects. Run the tests before and after each change.",
        model="gpt-4.1",
        tools=[run_command, write_file],
    )
    async with AsyncSandbox(template="code-interpreter") as sandbox:
        await sandbox.filesystem.write("/project/stats.py", BROKEN)
        await sandbox.filesystem.write("/project/test_stats.py", TEST)
        run = await Runner.run(agent, "Make `python3 test_stats.py` pass.", context=sandbox)
    print(run.final_output)


if __name__ == "__main__":
    asyncio.run(main())
