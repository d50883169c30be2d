"""The acceptance checks of the API contract, with the Python client as published. `checks.py NAME` runs one of them."""

import base64
import hashlib
import http.client
import json
import os
import sys
import threading
import time
from urllib.parse import urlsplit

from pandastack import AuthError, BadRequestError, Client, NotFoundError, Sandbox, SandboxTimeout, ServerError

PLAIN = {"template": "mini"}


def raises(kind, call):
    try:
        value = call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, not {value!r}")


def wait_for(what, condition, seconds=180):
    until = time.time() + seconds
    while not condition():
        assert time.time() < until, f"{what}: not within {seconds} s"
        time.sleep(0.1)


def create_without_arguments():
    box = Sandbox.create()
    done = box.exec("echo hi")
    assert (done.exit_code, done.stdout) == (0, "hi\n"), done
    assert box.template == "code-interpreter" and box.cpu >= 1 and box.memory_mb >= 256, vars(box)


def streams_keep_text_whole_and_come_at_once():
    box = Sandbox.create(**PLAIN)
    text, pieces = "é Å 😀 \u2028 \x85 |", []

    def hear(piece):
        # The command waits for this file: without incremental delivery it would wait for ever.
        if not pieces:
            box.filesystem.write("/run/heard", "1")
        pieces.append(piece)

    command = f"printf '%s' '{text}'; until [ -e /run/heard ]; do sleep 0.1; done; printf '%s' '{text}'; exit 5"
    code = box.exec_stream(command, on_stdout=hear, timeout_seconds=180)
    assert (code, "".join(pieces)) == (5, text * 2), (code, pieces)
    errors = []
    assert box.exec_stream("echo wrong >&2", on_stderr=errors.append) == 0 and "".join(errors) == "wrong\n"


def a_machine_killed_under_a_stream_is_an_error():
    box = Sandbox.create(**PLAIN)

    def kill(_):
        threading.Thread(target=lambda: raises(Exception, lambda: box.exec("echo b > /proc/sysrq-trigger"))).start()

    raises(ServerError, lambda: box.exec_stream("echo started; sleep 600", on_stdout=kill))
    wait_for("the sandbox is seen as failed", lambda: Sandbox.get(box.id).status == "failed")


def timeouts_are_sandbox_timeouts():
    box = Sandbox.create(**PLAIN)
    raises(SandboxTimeout, lambda: box.exec("sleep 60", timeout_seconds=1))
    raises(SandboxTimeout, lambda: box.exec_stream("sleep 60", timeout_seconds=1))
    context = box.create_code_context()
    raises(SandboxTimeout, lambda: context.run_code("import time; time.sleep(60)", timeout_seconds=2))
    assert context.run_code("6 * 7", timeout_seconds=120).text == "42"
    assert box.exec("echo alive").stdout == "alive\n"


def a_full_host_is_retried_until_there_is_room():
    impatient = Client(max_create_retry_seconds=0)
    boxes = []
    while True:
        try:
            boxes.append(impatient.sandboxes.create(**PLAIN))
        except ServerError as error:
            assert "no compute capacity available" in str(error) or "insufficient host memory" in str(error), error
            break
        assert len(boxes) < 64, "this host is never full"
    assert boxes, "not one sandbox fits"
    freed = threading.Timer(2, boxes[0].kill)
    freed.start()
    late = Sandbox.create(**PLAIN)
    assert late.exec("echo hi").stdout == "hi\n"
    freed.join()
    assert {box.id for box in Sandbox.list()} == {box.id for box in boxes[1:]} | {late.id}, "nothing else was made"


def a_quota_is_told_at_once():
    Sandbox.create(**PLAIN)
    begun = time.time()
    error = raises(BadRequestError, lambda: Sandbox.create(**PLAIN))
    assert "max sandboxes" in str(error), error
    assert time.time() - begun < 50, "it was retried, which takes a minute"
    assert len(Sandbox.list()) == 1


def forks_have_memory_and_trees_are_promoted():
    box = Sandbox.create(**PLAIN)
    box.exec("sleep 100000 > /dev/null 2>&1 & echo $! > /run/sleeper; echo in-memory > /dev/shm/note")
    has_memory = "cat /dev/shm/note && kill -0 $(cat /run/sleeper) && echo lives"
    child = box.fork(metadata={"a": "b"})
    assert child.exec(has_memory).stdout == "in-memory\nlives\n"
    assert child.metadata["a"] == "b" and child.metadata["fork_parent_id"] == box.id, child.metadata
    child.kill()

    first = box.fork_tree(4)
    assert len(first) == 4
    trees = {leaf.metadata["fork_tree_id"] for leaf in first}
    assert len(trees) == 1
    assert [leaf.exec(has_memory).stdout for leaf in first] == ["in-memory\nlives\n"] * 4
    winner, losers = first[2], [leaf.id for leaf in first if leaf is not first[2]]
    promoted = winner.promote(cleanup_siblings=True, tree_id=trees.pop())
    assert sorted(promoted["deleted"]) == sorted(losers), promoted

    second = box.fork_tree(2)
    promoted = second[0].promote(cleanup_siblings=True)
    assert promoted["deleted"] == [second[1].id], promoted
    assert {box.id, winner.id, second[0].id} == {other.id for other in Sandbox.list()}


def explore_finds_and_keeps_the_best():
    box = Sandbox.create(**PLAIN)
    candidates = ["exit 1", "echo good > /root/made-here; exit 0", "exit 3"]
    found = box.explore(candidates, capture_files="/root")
    assert found.winner is not None and found.winner_outcome.exit_code == 0, found
    assert found.winner.exec("cat /root/made-here").stdout == "good\n"
    assert any("made-here" in path for path in found.winner_outcome.files_changed), found.winner_outcome
    assert len(found.reaped) == 2 and not found.reap_failures, found
    assert {box.id, found.winner.id} == {other.id for other in Sandbox.list()}


def sleep_is_seen_and_use_wakes():
    box = Sandbox.create(persistent=True, **PLAIN)
    box.exec("sleep 100000 > /dev/null 2>&1 & echo $! > /run/sleeper")
    box.hibernate()
    assert Sandbox.get(box.id).status == "hibernated"
    assert Sandbox.get(box.id).status == "hibernated", "looking wakes nobody"
    assert box.exec("kill -0 $(cat /run/sleeper) && echo lives").stdout == "lives\n"
    box.wake()
    assert Sandbox.get(box.id).status == "running"


def a_persistent_sandbox_outlives_its_with_block():
    kept = Sandbox.create(persistent=True, **PLAIN)
    with Sandbox.get(kept.id) as again:
        again.exec("true")
    assert Sandbox.get(kept.id).id == kept.id
    with Sandbox.create(**PLAIN) as gone:
        pass
    raises(NotFoundError, lambda: Sandbox.get(gone.id))


def code_contexts_keep_state_and_give_rich_results():
    box = Sandbox.create(**PLAIN)
    with box.create_code_context() as context:
        assert not context.run_code("x = 41").error
        assert context.run_code("x + 1").text == "42"
        failed = context.run_code("print('before'); 1 / 0")
        assert "ZeroDivisionError" in failed.error and failed.stdout == "before\n" and failed.exit_code != 0, failed
        # The plotting library is not in `mini`: what it does is shown by an object that draws itself.
        png = base64.b64encode(b"\x89PNG picture").decode()
        drawn = context.run_code(
            "class Picture:\n    def _repr_png_(self): return b'\\x89PNG picture'\n"
            "    def _repr_html_(self): return '<b>picture</b>'\nPicture()"
        )
        assert (drawn.results[0].png, drawn.results[0].html) == (png, "<b>picture</b>"), drawn.results


def files_round_trip():
    box = Sandbox.create(**PLAIN)
    files, path = box.filesystem, "/srv/a folder/naïve 😀.bin"
    assert files.exists(path) is False
    files.write(path, bytes(range(256)) * 40)
    assert files.exists(path) is True and files.read(path) == bytes(range(256)) * 40
    files.write("/srv/empty", b"")
    assert files.read("/srv/empty") == b"" and files.stat("/srv/empty").size == 0
    assert [entry.name for entry in files.listdir("/srv/a folder")] == ["naïve 😀.bin"]
    assert sorted(folder for folder, _, _ in files.walk("/srv")) == ["/srv", "/srv/a folder"]
    raises(NotFoundError, lambda: files.read("/srv/nothing"))


def templates_are_built_from_dockerfiles():
    templates = Client().templates
    build = templates.build_from_dockerfile("py-plain", "FROM mini\nENV GREETING=hello\nRUN echo made > /made\n")
    log = list(templates.build_logs(build.id))
    assert templates.wait_for_build(build.id, timeout_seconds=300).is_done, log
    assert any("RUN echo made" in line for line in log), log
    box = Sandbox.create(template="py-plain")
    assert box.exec("cat /made; echo $GREETING").stdout == "made\nhello\n"

    import pathlib, tempfile

    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "nested").mkdir()
        (pathlib.Path(folder) / "nested" / "file.txt").write_text("from the context\n")
        build = templates.build_from_dockerfile(
            "py-context", "FROM mini\nCOPY nested/file.txt /srv/file.txt\n", context_dir=folder
        )
        assert templates.wait_for_build(build.id, timeout_seconds=300).is_done
    assert Sandbox.create(template="py-context").exec("cat /srv/file.txt").stdout == "from the context\n"

    build = templates.build_from_dockerfile("py-broken", "FROM mini\nRUN exit 7\n")
    error = raises(Exception, lambda: templates.wait_for_build(build.id, timeout_seconds=300))
    assert "RUN exit 7" in str(error) or "7" in str(error), error
    assert {"py-plain", "py-context"} <= {template.name for template in templates.list()}
    templates.delete("py-context")
    assert "py-context" not in {template.name for template in templates.list()}


def snapshots_are_listed_by_sandbox():
    client = Client()
    one, two = Sandbox.create(**PLAIN), Sandbox.create(**PLAIN)
    one.exec("echo kept > /root/note")
    first, second = one.snapshot(), two.snapshot()
    assert {item["id"] for item in client.snapshots.list()} == {first, second}
    assert [item["id"] for item in client.snapshots.list(sandbox_id=one.id)] == [first]
    again = Sandbox.create(from_snapshot=first)
    assert again.exec("cat /root/note").stdout == "kept\n"
    again.kill()
    client.snapshots.delete(second)
    raises(NotFoundError, lambda: client.snapshots.get(second))


def logs_follow_and_stand_idleness():
    box = Sandbox.create(**PLAIN)
    # Longer than the client waits for a byte.
    quiet = 40
    command = f"(sleep {quiet}; echo a line for the console > /dev/console) > /dev/null 2>&1 &"
    box.exec(command)
    for line in box.logs(follow=True):
        assert not line.startswith("{"), f"only real lines: {line!r}"
        if "a line for the console" in line:
            break
    else:
        raise AssertionError("the stream ended before its line came")
    assert any("a line for the console" in line for line in box.logs())


# A server that counts its requests, and echoes frames to whoever asks for a WebSocket.
COUNTER = r"""
import base64, hashlib, http.server

class Counter(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        if self.headers.get("upgrade") == "websocket":
            return self.echo()
        Counter.asked += 1
        said = f"{Counter.asked} {self.path} {self.headers['x-forwarded-host']}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def echo(self):
        magic = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "upgrade")
        self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode())
        self.end_headers()
        while len(head := self.rfile.read(2)) == 2 and head[0] & 15 != 8:
            mask, data = self.rfile.read(4), self.rfile.read(head[1] & 127)
            self.wfile.write(bytes([0x81, len(data)]) + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)))

http.server.ThreadingHTTPServer(("", 8000), Counter).serve_forever()
"""


def previews_need_no_key_and_wake():
    box = Sandbox.create(**PLAIN, persistent=True)
    server = urlsplit(box._client.api_url)
    box._client.preview_host = f"localhost:{server.port}"
    box.filesystem.write("/srv/counter.py", COUNTER)
    box.exec("setsid python3 /srv/counter.py > /tmp/counter.log 2>&1 < /dev/null &")
    wait_for("the port is listed", lambda: 8000 in box.preview_urls())
    url = urlsplit(box.preview_url(8000, scheme="http"))
    assert url.netloc == f"8000-{box.id}.localhost:{server.port}", url

    # As a browser does: whatever ends in `.localhost` is this machine.
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=180)

    def ask(path, **headers):
        connection.request("GET", path, headers={"host": url.netloc, **headers})
        return connection.getresponse()

    assert ask("/a?b=c").read().decode() == f"1 /a?b=c {url.netloc}"
    key = base64.b64encode(os.urandom(16)).decode()
    handshake = {"sec-websocket-version": "13", "sec-websocket-key": key}
    socket = ask("/ws", upgrade="websocket", connection="Upgrade", **handshake)
    accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    answered = socket.status, socket.headers["sec-websocket-accept"]
    assert answered == (101, accept), (socket.status, socket.headers.items())
    connection.sock.sendall(bytes([0x81, 0x82, 1, 2, 3, 4, ord("h") ^ 1, ord("i") ^ 2]))
    echoed = b""
    while len(echoed) < 4:
        echoed += connection.sock.recv(4)
    assert echoed == b"\x81\x02hi", echoed
    connection.close()
    box.hibernate()
    assert Sandbox.get(box.id).status == "hibernated"
    said = ask("/again").read().decode()
    assert said == f"2 /again {url.netloc}", said
    assert Sandbox.get(box.id).status == "running"
    box.kill()
    assert ask("/").status == 404


def volumes_outlive_sandboxes_and_have_one_writer():
    volumes = Client().volumes
    volumes.create("data", size_mb=64)
    with Sandbox.create(volumes=[{"name": "data"}], **PLAIN) as box:
        place = box.exec("findmnt -rno TARGET /dev/vdb || awk '/vdb/{print $2}' /proc/mounts").stdout.strip()
        assert place, "the volume is mounted"
        box.exec(f"echo kept > {place}/note && sync", check=True)
        raises(BadRequestError, lambda: volumes.delete("data"))
        raises(BadRequestError, lambda: Sandbox.create(volumes=[{"name": "data"}], **PLAIN))
    with Sandbox.create(volumes=[{"name": "data", "read_only": True}], **PLAIN) as box:
        assert box.exec(f"cat {place}/note").stdout == "kept\n"
    assert [volume["name"] for volume in volumes.list()] == ["data"]
    volumes.delete("data")
    raises(NotFoundError, lambda: volumes.get("data"))


def the_managed_agents_worker_finds_what_it_needs():
    box = Sandbox.create(metadata={"cma.session_id": "s1", "cma.environment_id": "e1"}, persistent=True, **PLAIN)
    box.hibernate()
    found = [other for other in Sandbox.list() if (other.metadata or {}).get("cma.session_id") == "s1"]
    assert [other.id for other in found] == [box.id] and found[0].status == "hibernated"
    script = "{ setsid sh -c 'sleep 300' </dev/null >/dev/null 2>&1 & }\necho launched\n"
    box.filesystem.write("/run/launch.sh", script)
    begun = time.time()
    done = box.exec("sh /run/launch.sh; rm -f /run/launch.sh", timeout_seconds=250)
    assert done.stdout == "launched\n" and time.time() - begun < 240, done
    box.exec("mkdir -p /mnt/session/outputs")
    assert box.filesystem.listdir("/mnt/session/outputs") == []


def post(client, path, body):
    """Send a request for which published clients have no method."""
    server = urlsplit(client.api_url)
    connection = http.client.HTTPConnection(server.hostname, server.port, timeout=180)
    headers = {"authorization": f"Bearer {client.api_key}", "content-type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    said = json.loads(answer.read())
    assert answer.status in (200, 201), (answer.status, said)
    return said


def a_person_manages_keys():
    operator = Client()
    assert operator.me()["user_id"] == "default"
    raises(AuthError, operator.tokens.list)
    ask = {"email": "ada@example.com", "password": "correct horse battery"}
    begun = post(operator, "/v1/auth/setup", ask)
    person = Client(api_key=begun["token"])
    me = person.me()
    assert (me["email"], me["auth_method"], me["current_org"]["role"]) == ("ada@example.com", "session", "owner"), me
    assert me["orgs"] == [me["current_org"]] and me["current_org_id"] == me["current_org"]["id"], me
    made = person.tokens.create("ci", expires_in_days=3)
    assert made.token.startswith(made.prefix) and made.name == "ci" and made.created_at, made
    assert [token.name for token in person.tokens.list()] == ["ci", "bootstrap"]
    assert Client(api_key=made.token).me()["user_id"] == me["workspace"]
    # A second organisation has keys of its own.
    org = post(person, "/v1/orgs", {"name": "Panda Works"})
    assert person.me()["current_org"]["slug"] == "panda-works" and person.tokens.list() == [], org
    raises(NotFoundError, lambda: person.tokens.revoke(made.prefix))
    post(person, "/v1/me/current-org", {"org_id": me["current_org_id"]})
    person.tokens.revoke(made.prefix)
    raises(AuthError, Client(api_key=made.token).me)
    raises(NotFoundError, lambda: person.tokens.revoke(made.prefix))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"checked: {sys.argv[1]}")
