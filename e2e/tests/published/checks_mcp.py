"""The MCP client as published, against the tools of one sandbox. `checks_mcp.py NAME` runs a check."""

import asyncio
import os
import sys

import httpx2
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client


def created():
    """A sandbox, made with nothing but the MCP client's own HTTP library."""
    headers = {"Authorization": "Bearer " + os.environ["PANDASTACK_API_KEY"]}
    api = os.environ["PANDASTACK_API"] + "/v1/sandboxes"
    with httpx2.Client(headers=headers, timeout=180, trust_env=False) as http:
        return f"{api}/{http.post(api, json={'template': 'mini'}).json()['id']}/mcp"


async def use(url):
    headers = {"Authorization": "Bearer " + os.environ["PANDASTACK_API_KEY"]}
    async with httpx2.AsyncClient(headers=headers, timeout=180, trust_env=False) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                hello = await session.initialize()
                assert (hello.server_info.name) == "pandastack-sandbox", hello
                tools = await session.list_tools()
                names = [tool.name for tool in tools.tools]
                assert names == ["shell", "run_code", "read_file", "write_file", "list_dir"]
                async def call(name, **arguments):
                    done = await session.call_tool(name, arguments)
                    return done.content[0].text, bool(done.is_error)
                assert await call("shell", command="echo hi; exit 3") == ("hi\n\n[exit code]\n3", True)
                assert (await call("write_file", path="/srv/a", content="text"))[1] is False
                assert await call("read_file", path="/srv/a") == ("text", False)
                assert " a" in (await call("list_dir", path="/srv"))[0]
                await call("run_code", code="x = 20", timeout_ms=120000)
                assert await call("run_code", code="x + 1", timeout_ms=120000) == ("\n[result]\n21", False)
                text, failed = await call("run_code", code="y")
                assert failed and "NameError" in text
                try:
                    await session.call_tool("fly", {})
                except Exception as error:
                    assert "unknown tool" in str(error), error
                else:
                    raise AssertionError("a tool that is not there was called")
                await session.send_ping()


def a_sandbox_is_a_set_of_tools():
    asyncio.run(use(created()))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"checked: {sys.argv[1]}")
