"""The official Python client against the tools of a workspace: `checks.py http URL` or `checks.py stdio PROGRAM`."""

import asyncio
import base64
import json
import os
import sys
import time

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Tools:
    """Calls tools, and expects success."""

    def __init__(self, client):
        self.client = client

    async def parts(self, name, **arguments):
        done = await self.client.call_tool(name, arguments)
        assert not done.is_error, (name, done.content)
        return done.content

    async def text(self, name, **arguments):
        return (await self.parts(name, **arguments))[0].text

    async def json(self, name, **arguments):
        return json.loads(await self.text(name, **arguments))

    async def run(self, sandbox, command):
        return (await self.json("run_command", sandbox_id=sandbox, command=command))["stdout"]


async def use(client):
    tools = Tools(client)
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert len(listed) >= 13 and listed["read_file"].annotations.read_only_hint, listed.keys()
    sandbox = (await tools.json("create_sandbox", template="mini"))["id"]
    try:
        await files(client, tools, sandbox)
        await output(tools, sandbox)
        await cancelled(client, tools, sandbox)
        await processes(tools, sandbox)
        await copies(tools, sandbox)
        wrong = await client.call_tool("run_command", {"sandbox_id": "../x", "command": "true"})
        assert wrong.is_error and "not an id" in wrong.content[0].text
    finally:
        await tools.text("delete_sandbox", sandbox_id=sandbox)
    gone = await client.call_tool("get_sandbox", {"sandbox_id": sandbox})
    assert gone.is_error and "sandbox.not_found" in gone.content[0].text


async def files(client, tools, sandbox):
    await tools.text("write_file", sandbox_id=sandbox, path="/srv/a b.txt", content="héllo\n")
    assert await tools.text("read_file", sandbox_id=sandbox, path="/srv/a b.txt") == "héllo\n"
    names = [entry["name"] for entry in (await tools.json("list_dir", sandbox_id=sandbox, path="/srv"))["entries"]]
    assert names == ["a b.txt"], names
    picture = base64.b64encode(PNG).decode()
    await tools.text("write_file", sandbox_id=sandbox, path="/srv/p.png", content=picture, encoding="base64")
    image = (await tools.parts("read_file", sandbox_id=sandbox, path="/srv/p.png"))[0]
    assert (image.type, image.mime_type, base64.b64decode(image.data)) == ("image", "image/png", PNG)
    templates = (await client.list_resource_templates()).resource_templates
    assert templates[0].uri_template.startswith("sandbox://"), templates
    resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert f"sandbox://{sandbox}/workspace/" in resources, resources
    read = (await client.read_resource(f"sandbox://{sandbox}/srv/a%20b.txt")).contents[0]
    assert read.text == "héllo\n", read
    blob = (await client.read_resource(f"sandbox://{sandbox}/srv/p.png")).contents[0]
    assert (blob.mime_type, base64.b64decode(blob.blob)) == ("image/png", PNG)


async def output(tools, sandbox):
    ran = await tools.json("run_command", sandbox_id=sandbox, command="echo out; echo err >&2; exit 3")
    assert (ran["stdout"], ran["stderr"], ran["exit_code"]) == ("out\n", "err\n", 3), ran
    whole = "".join(f"{line}\n" for line in range(1, 9001))
    first, note = await tools.parts("run_command", sandbox_id=sandbox, command="seq 1 9000")
    shown = json.loads(first.text)["stdout"]
    assert shown.startswith("1\n2\n") and shown.endswith("9000\n") and len(first.text) < 30_000, len(first.text)
    path = note.text.split(" bytes are in ")[1].split(" of the sandbox")[0]
    read, joined = 0, ""
    while True:
        parts = await tools.parts("read_file", sandbox_id=sandbox, path=path, offset=read)
        joined += parts[0].text
        if len(parts) == 1:
            break
        read = int(parts[1].text.rsplit("offset ", 1)[1].rstrip("]"))
    assert joined == whole, len(joined)
    assert "21" in await tools.text("run_code", sandbox_id=sandbox, code="x = 20\nx + 1", timeout_seconds=120)


async def cancelled(client, tools, sandbox):
    """A call that is given up ends its command."""
    heard = anyio.Event()

    async def progress(done, total, message):
        assert done > 0 and "run_command" in message
        heard.set()

    arguments = {"sandbox_id": sandbox, "command": "sleep 4321", "timeout_seconds": 120}
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: client.call_tool("run_command", arguments, progress_callback=progress))
        with anyio.fail_after(60):
            await heard.wait()
        group.cancel_scope.cancel()
    until = time.monotonic() + 180
    # The pattern does not match the command that has it.
    while (await tools.run(sandbox, "pgrep -fc 'sleep 432[1]' || true")).strip() != "0":
        assert time.monotonic() < until, "the command goes on"


async def processes(tools, sandbox):
    command = "echo one; sleep 1; echo two; exec sleep 999"
    started = await tools.json("start_process", sandbox_id=sandbox, command=command)
    process, offset, said = started["id"], 0, ""
    while said != "one\ntwo\n":
        part = await tools.json(
            "read_process_output", sandbox_id=sandbox, process_id=process, offset=offset, wait_seconds=30
        )
        assert part["status"] == "running", part
        said, offset = said + part["stdout"], part["next_offset"]
    assert process in await tools.text("list_processes", sandbox_id=sandbox)
    await tools.text("stop_process", sandbox_id=sandbox, process_id=process)
    ended = {"status": "running"}
    while ended["status"] == "running":
        ended = await tools.json(
            "read_process_output", sandbox_id=sandbox, process_id=process, offset=offset, wait_seconds=30
        )
    assert ended["status"] == "killed", ended


async def copies(tools, sandbox):
    assert (await tools.json("preview_url", sandbox_id=sandbox, port=3000))["url"].startswith("http")
    forked = await tools.json("fork_sandbox", sandbox_id=sandbox)
    child = forked["children"][0]["id"]
    assert await tools.text("read_file", sandbox_id=child, path="/srv/a b.txt") == "héllo\n"
    await tools.text("delete_sandbox", sandbox_id=child)


async def main(transport, place):
    key = os.environ["PANDASTACK_API_KEY"]
    if transport == "stdio":
        server = StdioServerParameters(command=place, args=["mcp"], env=dict(os.environ))
        # The newest protocol over HTTP, and the one of most clients here.
        async with Client(stdio_client(server), mode="legacy") as client:
            await use(client)
        return
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=200, trust_env=False) as http:
        async with Client(streamable_http_client(place, http_client=http), mode="auto") as client:
            await use(client)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    print("checked")
