"""Times a create with its first command: by plain HTTP, then by the installed client.

Each line has both times in milliseconds. The standby pool is refilled in between.
"""

import http.client
import json
import os
import sys
import time
from urllib.parse import urlsplit

from pandastack import Sandbox

SERVER = urlsplit(os.environ["PANDASTACK_API"])
HEADERS = {
    "authorization": f"Bearer {os.environ['PANDASTACK_API_KEY']}",
    "content-type": "application/json",
}
plain = http.client.HTTPConnection(SERVER.hostname, SERVER.port)


def ask(method, path, body=None):
    plain.request(method, path, json.dumps(body) if body else None, HEADERS)
    answer = plain.getresponse()
    text = answer.read()
    assert answer.status < 300, (answer.status, text)
    return json.loads(text) if text else None


def by_http():
    sandbox = ask("POST", "/v1/sandboxes", {"template": "mini"})["id"]
    done = ask("POST", f"/v1/sandboxes/{sandbox}/exec", {"cmd": "echo hi"})
    return done["stdout"], lambda: ask("DELETE", f"/v1/sandboxes/{sandbox}")


def by_client():
    sandbox = Sandbox.create(template="mini")
    return sandbox.exec("echo hi").stdout, sandbox.kill


def timed(way):
    begun = time.perf_counter()
    said, remove = way()
    took = (time.perf_counter() - begun) * 1000
    assert said == "hi\n", said
    remove()
    time.sleep(0.6)
    return took


for _ in range(int(sys.argv[1]) + 1):
    print(timed(by_http), timed(by_client), flush=True)
