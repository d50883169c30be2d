"""The command line that comes with the published TypeScript client: its commands for databases."""

import json
import os
import subprocess

CLI = [os.environ["NODE"], os.environ["CLI"]]


def cli(*words, code=0):
    done = subprocess.run([*CLI, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=170)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def shown(*words):
    return json.loads(cli(*words))


made = shown("db", "create", "--label", "by command", "--size", "1g")
name = made["id"]
assert (made["status"], made["label"], made["size"]) == ("running", "by command", "1g"), made
assert name in [one["id"] for one in shown("db", "list")]
assert shown("db", "get", name)["connection_url"] == made["connection_url"]
assert shown("db", "connection", name)["broker_token"] == made["broker_token"]
assert shown("db", "wake", name)["status"] in ("running", "waking")
assert shown("database", "update", name, "--always-on")["always_on"] is True
assert shown("database", "update", name, "--no-always-on")["always_on"] is False
renewed = shown("db", "reset-credentials", name)
assert renewed["password"] != made["password"]
psql = ["psql", "-XAtc", "SELECT 1", "-d", f"{renewed['connection_url']}?sslmode=require"]
assert subprocess.run(psql, capture_output=True, text=True, timeout=60, check=True).stdout == "1\n"
clone = shown("db", "clone", name, "--no-wait")
assert clone["id"] != name and clone["status"] == "provisioning", clone
assert cli("db", "delete", clone["id"]) == f"deleted database {clone['id']}\n"
assert cli("db", "delete", name) == f"deleted database {name}\n"
assert "error: " in cli("db", "get", name, code=1)
assert "error: " in cli("db", "create", "--size", "3g", code=1)
print("checked: the published command line")
