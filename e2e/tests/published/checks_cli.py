"""The command line that comes with the published TypeScript client, every command that has a route.

`checks_cli.py NAME` runs one check.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request

CLI = [os.environ["NODE"], os.environ["CLI"]]


def cli(*words, code=0, stdin=None):
    done = subprocess.run([*CLI, *words], capture_output=True, text=True, input=stdin, timeout=170)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def created(*words):
    out = cli("sandbox", "create", "--template", "mini", *words)
    return re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", out).group(0)


def listed():
    return cli("sandbox", "list")


def sandbox_commands():
    box = created("--metadata", "a=b,c=d", "--ttl", "600")
    assert box in listed()
    assert "mini" in cli("sandbox", "get", box)
    assert "hi there" in cli("sandbox", "exec", box, "--", "echo hi there")
    assert "42" in cli("sandbox", "run-code", box, "--language", "python", "--", "print(6 * 7)")
    cli("sandbox", "pause", box)
    assert "paused" in cli("sandbox", "get", box)
    cli("sandbox", "resume", box)
    cli("sandbox", "hibernate", box)
    assert "hibernated" in cli("sandbox", "get", box)
    cli("sandbox", "wake", box)
    assert "600" in cli("sandbox", "lifecycle", box)
    assert "900" in cli("sandbox", "set-ttl", box, "--ttl", "900")
    assert "true" in cli("sandbox", "set-persistent", box, "--persistent", "true")
    assert f"3000-{box}" in cli("sandbox", "preview-url", box, "--port", "3000")
    cli("sandbox", "preview-urls", box)
    cli("sandbox", "logs", box)
    assert "default" in cli("me") or "user_id" in cli("me")
    cli("sandbox", "delete", box)
    assert box not in listed()
    assert cli("sandbox", "get", box, code=1) is not None


def fork_commands():
    box = created()
    cli("sandbox", "fork", box, "--metadata", "x=y")
    cli("sandbox", "fork-tree", box, "--count", "2")
    leaves = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", listed())
    assert len(set(leaves)) == 4, leaves
    boxes = [(leaf, cli("sandbox", "get", leaf)) for leaf in dict.fromkeys(leaves)]
    winner = next(leaf for leaf, said in boxes if "fork_tree_id" in said)
    promoted = cli("sandbox", "promote", winner)
    assert winner in promoted, promoted


def file_and_snapshot_commands():
    box = created()
    cli("fs", "write", box, "--path", "/srv/note", "--content", "written é")
    assert "written é" in cli("fs", "read", box, "--path", "/srv/note")
    with tempfile.TemporaryDirectory() as folder:
        up, down = os.path.join(folder, "up"), os.path.join(folder, "down")
        with open(up, "wb") as file:
            file.write(bytes(range(256)))
        cli("fs", "upload", box, "--local", up, "--remote", "/srv/bytes")
        cli("fs", "download", box, "--remote", "/srv/note", "--local", down)
        with open(down, encoding="utf-8") as file:
            assert file.read() == "written é"
    assert "256" in cli("sandbox", "exec", box, "--", "wc -c < /srv/bytes")
    made = cli("sandbox", "snapshot", box)
    snapshot = next(word for word in re.findall(r"[\w-]{20,}", made) if word != box)
    assert snapshot in cli("snapshot", "list")
    again = created("--from-snapshot", snapshot)
    assert "written é" in cli("fs", "read", again, "--path", "/srv/note")
    cli("sandbox", "delete", again)
    cli("snapshot", "delete", snapshot)
    assert snapshot not in cli("snapshot", "list")


def template_commands():
    assert "mini" in cli("template", "list")
    assert "mini" in cli("template", "get", "mini")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "Dockerfile"), "w", encoding="utf-8") as file:
            file.write("FROM mini\nCOPY hello.txt /srv/hello.txt\nRUN echo built >> /srv/hello.txt\n")
        with open(os.path.join(folder, "hello.txt"), "w", encoding="utf-8") as file:
            file.write("hello\n")
        dockerfile = os.path.join(folder, "Dockerfile")
        said = cli("template", "build", "--name", "cli-made", "-f", dockerfile, "--context", folder)
    builds = cli("template", "builds")
    assert "cli-made" in builds, (said, builds)
    is_json = builds.lstrip().startswith("[")
    build = json.loads(builds)[0]["id"] if is_json else re.search(r"[\w-]{20,}", builds).group(0)
    assert "done" in cli("template", "build-status", build)
    assert "RUN echo built" in cli("template", "build-logs", build)
    box = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", cli("sandbox", "create", "--template", "cli-made")).group(0)
    assert "hello\nbuilt" in cli("sandbox", "exec", box, "--", "cat /srv/hello.txt")
    cli("sandbox", "delete", box)
    cli("template", "delete", "cli-made")
    assert "cli-made" not in cli("template", "list")


def ssh_is_a_terminal_that_follows_its_window():
    box = created()
    child, terminal = pty.fork()
    if child == 0:
        os.execv(CLI[0], [*CLI, "sandbox", "ssh", box])
    said = b""

    def expect(pattern, seconds=180):
        nonlocal said
        until = time.time() + seconds
        while not re.search(pattern, said):
            assert time.time() < until, (pattern, said)
            if select.select([terminal], [], [], 0.5)[0]:
                try:
                    said += os.read(terminal, 65536)
                except OSError:
                    said += b"<closed>"
                    assert re.search(pattern, said), (pattern, said)
        said = b""

    def size(rows, columns):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    size(30, 100)
    expect(rb"[#$] ")
    os.write(terminal, b"echo $((6 * 7))-answer\r")
    expect(rb"42-answer")
    size(41, 137)
    os.write(terminal, b"until stty size | grep '41 137'; do sleep 0.1; done; echo re$((1 + 1))sized\r")
    expect(rb"re2sized")
    os.write(terminal, b"exit\r")
    expect(rb"<closed>")
    os.waitpid(child, 0)


def token_commands():
    ask = {"email": "ada@example.com", "password": "correct horse battery"}
    headers = {"authorization": f"Bearer {os.environ['PANDASTACK_API_KEY']}", "content-type": "application/json"}
    url = f"{os.environ['PANDASTACK_API']}/v1/auth/setup"
    request = urllib.request.Request(url, json.dumps(ask).encode(), headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        os.environ["PANDASTACK_API_KEY"] = json.load(answer)["token"]
    assert "ada@example.com" in cli("me")
    made = cli("token", "create", "--label", "ci-pipeline")
    prefix = re.search(r"pds_[0-9a-f]{8}", made).group(0)
    assert prefix in cli("token", "list") and "ci-pipeline" in cli("token", "list")
    assert "revoked" in cli("token", "revoke", prefix)
    assert prefix not in cli("token", "list")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"checked: {sys.argv[1]}")
