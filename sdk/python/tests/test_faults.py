"""What happens when the server or the network fails."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, List

import pytest

from pandastack import (
    APIConnectionError,
    AuthError,
    BadRequestError,
    CapacityError,
    ConflictError,
    CreateCancelled,
    ExecInterrupted,
    ForbiddenError,
    NotFoundError,
    PandaStack,
    PandastackError,
    RateLimitError,
    RequestTimeout,
    Sandbox,
    SandboxTimeout,
    ServerError,
)

from .standin import ID, KEY, Reply, S, drip, events, sandbox

if TYPE_CHECKING:
    from typing import Type

    from pandastack import (
        CreateRetryEvent,
    )

    from .standin import StandIn

FULL = Reply(503, {"error": "no compute capacity available"}, {"retry-after": "0"})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequestError),
        (401, AuthError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (422, BadRequestError),
        (429, RateLimitError),
        (500, ServerError),
        (502, ServerError),
    ],
)
def test_statuses_have_their_exceptions(
    server: StandIn, client: PandaStack, status: int, kind: Type[PandastackError]
) -> None:
    body = {"error": "no", "code": "some.code", "request_id": "r1"}
    server.on("POST", "/v1/volumes", Reply(status, body, {"retry-after": "7"}))
    with pytest.raises(kind) as caught:
        client.volumes.create("v", 1)
    error = caught.value
    assert type(error) is kind
    assert (error.message, error.status, error.code) == ("no", status, "some.code")
    assert (error.request_id, error.retry_after) == ("r1", 7.0)
    assert server.count("POST", "/v1/volumes") == 1


def test_403_is_also_what_0_10_raised() -> None:
    assert issubclass(ForbiddenError, BadRequestError)
    assert issubclass(RateLimitError, BadRequestError)
    assert issubclass(CapacityError, ServerError)
    assert issubclass(RequestTimeout, APIConnectionError)


def test_errors_that_are_not_json_are_shown(server: StandIn, client: PandaStack) -> None:
    server.on("GET", "/v1/me", Reply(502, b"<h1>bad gateway</h1>"))
    with pytest.raises(ServerError, match="bad gateway"):
        client.me()


def test_a_create_waits_for_room(server: StandIn) -> None:
    told: List[CreateRetryEvent] = []
    server.on(
        "POST",
        "/v1/sandboxes",
        FULL,
        Reply(429, {"error": "slow down"}, {"retry-after": "0"}),
        Reply(507, {"error": "insufficient host memory for sandbox"}),
        Reply(201, sandbox()),
    )
    with PandaStack(server.url, KEY, on_create_retry=told.append) as client:
        assert client.sandboxes.create("mini").id == ID
    assert [event.status_code for event in told] == [503, 429, 507]
    assert [event.attempt for event in told] == [1, 2, 3]
    assert told[0].error == "no compute capacity available"
    assert told[2].delay_seconds >= 0.5


@pytest.mark.parametrize(
    "reply",
    [
        Reply(429, {"error": "max sandboxes reached"}),
        Reply(503, {"error": "auto-wake failed"}),
        Reply(503, b"busy", {"retry-after": "0"}),
        Reply(502, {"error": "agent unreachable"}),
        Reply(500, {"error": "oops"}),
    ],
)
def test_other_refusals_of_a_create_are_final(
    server: StandIn, client: PandaStack, reply: Reply
) -> None:
    server.on("POST", "/v1/sandboxes", reply)
    with pytest.raises(PandastackError):
        client.sandboxes.create("mini")
    assert server.count("POST", "/v1/sandboxes") == 1


def test_retries_end_with_the_budget(server: StandIn) -> None:
    server.on("POST", f"{S}/fork", FULL)
    with PandaStack(server.url, KEY, max_create_retry_seconds=0.5) as client:
        with pytest.raises(CapacityError) as caught:
            Sandbox(id=ID, client=client).fork()
    assert caught.value.retry_after == 0.0


def test_a_long_retry_after_ends_the_retries_at_once(server: StandIn, client: PandaStack) -> None:
    server.on("POST", "/v1/sandboxes", Reply(503, {"error": "full"}, {"retry-after": "120"}))
    with pytest.raises(CapacityError):
        client.sandboxes.create("mini")
    assert server.count("POST", "/v1/sandboxes") == 1


def test_retries_can_be_turned_off(server: StandIn) -> None:
    server.on("POST", "/v1/sandboxes", FULL)
    with (
        PandaStack(server.url, KEY, max_create_retry_seconds=0) as client,
        pytest.raises(CapacityError),
    ):
        client.sandboxes.create("mini")
    assert server.count("POST", "/v1/sandboxes") == 1


def test_a_create_can_be_cancelled(server: StandIn, client: PandaStack) -> None:
    server.on("POST", "/v1/sandboxes", Reply(503, {"error": "full"}, {"retry-after": "20"}))
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    started = time.monotonic()
    with pytest.raises(CreateCancelled) as caught:
        client.sandboxes.create("mini", cancel=cancel)
    # The retry would come after 20 seconds.
    assert time.monotonic() - started < 19
    assert isinstance(caught.value.__cause__, CapacityError)
    with pytest.raises(CreateCancelled):
        client.sandboxes.create("mini", cancel=cancel)
    assert server.count("POST", "/v1/sandboxes") == 1


def test_a_404_is_asked_once_more(server: StandIn, client: PandaStack) -> None:
    server.on("GET", S, Reply(404, {"error": "not found"}), Reply(200, sandbox()))
    assert client.sandboxes.get(ID).id == ID
    with pytest.raises(NotFoundError):
        client.sandboxes.get("other")
    assert server.count("GET", "/v1/sandboxes/other") == 2
    with pytest.raises(NotFoundError):
        client.sandboxes.fork("other")
    assert server.count("POST", "/v1/sandboxes/other/fork") == 1


def test_an_agent_that_starts_is_waited_for(server: StandIn, box: Sandbox) -> None:
    starting = Reply(502, {"error": "dial tcp: connect: connection refused"})
    done = Reply(200, {"stdout": "hi", "stderr": "", "exit_code": 0, "duration_ms": 1})
    server.on("POST", f"{S}/exec", starting, done)
    assert box.exec("echo hi").stdout == "hi"


def test_an_agent_that_never_starts_is_given_up(
    server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PANDASTACK_EXEC_READY_TIMEOUT", "0.7")
    server.on("POST", f"{S}/exec", Reply(502, {"error": "no route to host"}))
    with PandaStack(server.url, KEY) as client, pytest.raises(ServerError, match="no route"):
        Sandbox(id=ID, client=client).exec("true")
    assert server.count("POST", f"{S}/exec") == 2


@pytest.mark.parametrize("text", ["exec timeout after 1s", "context deadline exceeded"])
def test_a_command_that_takes_too_long(server: StandIn, box: Sandbox, text: str) -> None:
    server.on("POST", f"{S}/exec", Reply(504, {"error": text, "code": "exec.timeout"}))
    with pytest.raises(SandboxTimeout) as caught:
        box.exec("sleep 5", timeout_seconds=1)
    assert caught.value.code == "exec.timeout"


def test_malformed_json_is_the_servers_fault(server: StandIn, client: PandaStack) -> None:
    server.on("GET", "/v1/me", Reply(200, b"{not json"))
    with pytest.raises(ServerError, match="not JSON"):
        client.me()


def test_a_half_open_socket_ends_at_the_deadline(server: StandIn) -> None:
    server.on("GET", "/v1/me", Reply(silent=True))
    with PandaStack(server.url, KEY, timeout=0.5) as client:
        with pytest.raises(RequestTimeout, match="GET /v1/me"):
            client.me()


def test_an_explicit_timeout_is_also_for_commands(server: StandIn) -> None:
    server.on("POST", f"{S}/exec", Reply(silent=True))
    with PandaStack(server.url, KEY, timeout=0.5) as client, pytest.raises(RequestTimeout):
        Sandbox(id=ID, client=client).exec("true")


def test_a_slow_body_ends_at_the_deadline(server: StandIn) -> None:
    server.on("GET", "/v1/me", Reply(pieces=drip(b" ", 100, 0.1)))
    with PandaStack(server.url, KEY, timeout=0.5) as client:
        with pytest.raises(RequestTimeout):
            client.me()


def test_a_body_that_is_cut(server: StandIn, client: PandaStack) -> None:
    server.on("GET", "/v1/me", Reply(200, {"user_id": "u"}, cut=True))
    with pytest.raises(APIConnectionError, match="GET /v1/me"):
        client.me()


def test_nobody_listens() -> None:
    with (
        PandaStack("http://127.0.0.1:9", KEY) as client,
        pytest.raises(APIConnectionError, match=r"127\.0\.0\.1:9"),
    ):
        client.me()


def test_a_stream_that_is_cut(server: StandIn, box: Sandbox) -> None:
    out = 'event: stdout\ndata: {"chunk":"half"}\n\n'
    server.on("POST", f"{S}/exec/stream", events(out, cut=True))
    with pytest.raises(ExecInterrupted) as caught:
        box.stream("make")
    assert caught.value.partial_stdout == "half"
    assert isinstance(caught.value.__cause__, APIConnectionError)


def test_a_stream_without_an_exit_code(server: StandIn, box: Sandbox) -> None:
    server.on("POST", f"{S}/exec/stream", events('event: stderr\ndata: {"chunk":"e"}\n\n'))
    with pytest.raises(ExecInterrupted) as caught:
        box.exec_stream("make")
    assert caught.value.partial_stderr == "e"


def test_a_silent_stream_ends_at_its_limit(server: StandIn) -> None:
    out = b'event: stdout\ndata: {"chunk":"a"}\n\n'
    server.on("POST", f"{S}/exec/stream", Reply(pieces=drip(out, 2, 20)))
    with PandaStack(server.url, KEY, idle_timeout=0.4) as client:
        started = time.monotonic()
        with pytest.raises(ExecInterrupted):
            Sandbox(id=ID, client=client).stream("make")
    assert time.monotonic() - started < 18


@pytest.mark.parametrize(
    ("text", "kind"), [("exec timeout after 1s", SandboxTimeout), ("host is gone", ServerError)]
)
def test_a_stream_that_fails(
    server: StandIn, box: Sandbox, text: str, kind: Type[PandastackError]
) -> None:
    server.on("POST", f"{S}/exec/stream", events(f'event: error\ndata: {{"error":"{text}"}}\n\n'))
    with pytest.raises(kind, match=text):
        box.stream("make")


def test_a_followed_process_resumes_where_its_stream_broke(server: StandIn, box: Sandbox) -> None:
    process = {
        "id": "prc_1",
        "pid": 4,
        "cmd": "make",
        "status": "running",
        "started_at": "",
        "kept_from": 0,
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "stdin": False,
    }
    path = f"{S}/processes/prc_1/output"
    server.on("GET", f"{S}/processes/prc_1", Reply(200, process))
    server.on(
        "GET",
        path,
        events('event: stdout\nid: 2\ndata: {"chunk":"ab","offset":2}\n\n', cut=True),
        events(
            'event: stdout\ndata: {"chunk":"c","offset":3}\n\n',
            'event: exit\ndata: {"exit_code":3,"status":"exited","offset":3}\n\n',
        ),
    )
    found = box.processes.get("prc_1")
    assert "".join(chunk.text for chunk in found.follow()) == "abc"
    assert (found.exit_code, found.status) == (3, "exited")
    assert [one.query["offset"] for one in server.seen if one.path == path] == [["0"], ["2"]]


def test_closing_a_stream_ends_its_request(server: StandIn, box: Sandbox) -> None:
    ended = threading.Event()

    def pieces():  # type: ignore[no-untyped-def]
        try:
            while True:
                yield b'event: stdout\ndata: {"chunk":"x"}\n\n'
                time.sleep(0.02)
        finally:
            ended.set()

    server.on("POST", f"{S}/exec/stream", Reply(pieces=pieces))
    with box.commands.stream("yes") as output:
        assert next(output).text == "x"
    assert ended.wait(60)


def test_no_key_means_no_request(server: StandIn) -> None:
    client = PandaStack(server.url)
    with pytest.raises(AuthError, match="PANDASTACK_API_KEY"):
        client.me()
    assert server.seen == []
    server.on("GET", "/v1/pricing", Reply(200, {"rates": {}, "tiers": []}))
    client.billing.pricing()
