"""What a client of ours sees behind a proxy that holds every answer back until it is complete.

Prints what it saw as JSON.
"""

import json

from pandastack import PandaStack, PandastackError

ENDLESS = "while :; do echo tick; sleep 0.1; done"

client = PandaStack(timeout=60, idle_timeout=10)
sandbox = client.sandboxes.create(template="mini", ttl_seconds=600)


def attempt(work):
    """What work returned, or the name of its error."""
    try:
        return work()
    except PandastackError as error:
        return type(error).__name__


seen = {
    "exec": attempt(lambda: sandbox.exec("echo one").stdout),
    "stream": attempt(lambda: sandbox.stream("echo one; sleep 0.5; echo two").stdout),
    "process": attempt(lambda: sandbox.spawn("echo one; sleep 0.5; exit 3").wait().exit_code),
    "endless": attempt(lambda: sandbox.stream(ENDLESS).stdout),
    "written": attempt(lambda: sandbox.filesystem.write("/srv/file", b"x" * 100_000) and None),
    "read": attempt(lambda: len(sandbox.filesystem.read("/srv/file"))),
}
sandbox.kill()
print(json.dumps(seen), flush=True)
