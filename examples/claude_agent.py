"""Claude Agent SDK: a sandbox as tools, with one that rehearses dangerous commands in a copy.

The tools run in this process (an MCP server without a port). Claude's own tools for this computer
are off, so it can only reach the sandbox.

With a model:     ANTHROPIC_API_KEY=... python examples/claude_agent.py
With a recording: python examples/_model/play.py claude_agent
"""

from __future__ import annotations

import asyncio
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    TextBlock,
    create_sdk_mcp_server,
    query,
    tool,
)

from pandastack import AsyncSandbox

FILES = {
    "/srv/app/data/prices.json": '{"tea": 3}\n',
    "/srv/app/check.py": "open('/srv/app/data/prices.json').read()\nprint('healthy')\n",
    "/srv/app/cache/old.bin": "x" * 300_000,
    "/srv/app/data/backup.bin": "x" * 700_000,
}


def sandbox_tools(sandbox: AsyncSandbox) -> Any:
    async def answer(where: str, box: AsyncSandbox, command: str) -> dict[str, Any]:
        result = await box.exec(command, timeout_seconds=60)
        output = (result.stdout + result.stderr).strip()
        print(f"{where} $ {command}\n{output}\n")
        return {"content": [{"type": "text", "text": f"exit code {result.exit_code}\n{output}"}]}

    @tool("run", "Run a shell command on the server.", {"command": str})
    async def run(arguments: dict[str, Any]) -> dict[str, Any]:
        return await answer("server", sandbox, arguments["command"])

    @tool("rehearse", "Run a command in a copy of the server, which is deleted.", {"command": str})
    async def rehearse(arguments: dict[str, Any]) -> dict[str, Any]:
        async with await sandbox.fork() as copy:
            return await answer("copy  ", copy, arguments["command"])

    return create_sdk_mcp_server("sandbox", tools=[run, rehearse])


async def main() -> None:
    async with AsyncSandbox(template="base") as sandbox:
        for path, text in FILES.items():
            await sandbox.filesystem.write(path, text)
        options = ClaudeAgentOptions(
            model="claude-sonnet-4-5",
            system_prompt="You care for a server. Rehearse every command that deletes something.",
            mcp_servers={"sandbox": sandbox_tools(sandbox)},
            tools=[],
            allowed_tools=["mcp__sandbox__run", "mcp__sandbox__rehearse"],
            setting_sources=[],
            max_turns=10,
        )
        task = "Free space below /srv/app. `python3 /srv/app/check.py` must still say healthy."
        async for message in query(prompt=task, options=options):
            if isinstance(message, AssistantMessage):
                for block in message.content:
                    if isinstance(block, TextBlock):
                        print(block.text)


if __name__ == "__main__":
    asyncio.run(main())
