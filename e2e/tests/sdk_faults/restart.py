"""What a client of ours sees when the server is killed and started again while output flows.

Prints `ready` when output flows, and at the end what it saw as JSON.
"""

import json
import threading

from pandastack import ExecInterrupted, PandaStack

COUNT = "for i in $(seq 1 40); do echo line $i; sleep 0.2; done; exit 7"
ENDLESS = "while :; do echo tick; sleep 0.1; done"

client = PandaStack(timeout=60)
sandbox = client.sandboxes.create(template="mini", ttl_seconds=600)
flows = threading.Semaphore(0)
seen = {}


def stream() -> None:
    """A command whose connection is lost: its end is not known, and the error says so."""
    started = []
    try:
        sandbox.stream(ENDLESS, on_stdout=lambda text: started or (started.append(text), flows.release()))
    except ExecInterrupted as error:
        seen["stream"] = type(error).__name__
        seen["partial"] = error.partial_stdout.startswith("tick\n")


def follow() -> None:
    """A process that outlives its connection: its output goes on where it broke."""
    process = sandbox.spawn(COUNT)
    text = ""
    for chunk in process.follow():
        if not text:
            flows.release()
        text += chunk.text
    seen["lines"] = text == "".join(f"line {i}\n" for i in range(1, 41))
    seen["exit_code"] = process.exit_code


threads = [threading.Thread(target=work) for work in (stream, follow)]
for thread in threads:
    thread.start()
for _ in threads:
    flows.acquire()
print("ready", flush=True)
for thread in threads:
    thread.join()
seen["afterwards"] = sandbox.exec("echo again").stdout
sandbox.kill()
print(json.dumps(seen), flush=True)
