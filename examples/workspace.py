"""A workspace that outlives its sandboxes: each session mounts the same volume.

The first session starts a task, and its machine is deleted. The second session is another machine
and goes on where the first one stopped. At last a reviewer reads the files but cannot change them.

Run it: python examples/workspace.py
"""

from __future__ import annotations

from pandastack import Sandbox, Volume


def session(volume: Volume, note: str) -> None:
    """What happens when the user comes back: a new machine, the old files."""
    with Sandbox(template="code-interpreter", volumes=[volume.mount("/workspace")]) as sandbox:
        known = sandbox.exec("cat notes.md 2>/dev/null || echo '(nothing yet)'", cwd="/workspace")
        print(f"sandbox {sandbox.id} finds:\n{known.stdout.strip()}\n")
        sandbox.exec("cat >> notes.md", cwd="/workspace", stdin=f"- {note}\n", check=True)


def review(volume: Volume) -> None:
    """Any number of sandboxes can read a volume that nobody writes."""
    mount = volume.mount("/workspace", read_only=True)
    with Sandbox(template="code-interpreter", volumes=[mount]) as sandbox:
        print(f"the reviewer reads:\n{sandbox.filesystem.read('/workspace/notes.md')}")
        refused = sandbox.exec("rm notes.md", cwd="/workspace")
        print(f"the reviewer cannot delete it: {refused.stderr.strip()}")


def main() -> None:
    volume = Volume.get_or_create(name="user-7-workspace", size_gb=20)
    try:
        session(volume, "the parser fails on empty lines")
        session(volume, "fixed in parser.py; a test is missing")
        review(volume)
    finally:
        volume.delete()  # A real user's volume stays, of course.


if __name__ == "__main__":
    main()
