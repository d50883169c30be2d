"""Write the synchronous modules from the asynchronous ones.

    python scripts/write_sync.py           # writes src/pandastack/_sync
    python scripts/write_sync.py --check   # fails if they are not up to date

`_async` is the only place to edit. What cannot be translated word by word is in the two modules
`flavour.py`, or between these marks:

    # [async only]           # [sync only]
    def __await__(self): …   # self._begin()
    # [end]                  # [end]
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "pandastack"
# Text with pairs of parentheses, up to three levels deep.
BALANCED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"

BY_HAND = {"__init__.py", "flavour.py"}

WORDS = {
    "AsyncClient": "Client",
    "AsyncGenerator": "Generator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "_async": "_sync",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "aiter_lines": "iter_lines",
    "asynccontextmanager": "contextmanager",
}


def translate(name: str, text: str) -> str:
    text = re.sub(r" *# \[async only\]\n.*?# \[end\]\n", "", text, flags=re.DOTALL)
    text = re.sub(r" *# \[sync only\]\n(.*?) *# \[end\]\n", _uncomment, text, flags=re.DOTALL)
    text = re.sub(r"AsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]", text)
    text = re.sub(r"\basync (def|with|for)\b", r"\1", text)
    # `(await x).y` needs no parentheses any more.
    text = re.sub(rf"\(await ({BALANCED})\)(?=[.\[])", r"\1", text)
    # `with await x` opens and enters: without `await` it is the same.
    text = re.sub(r"\bawait ", "", text)
    text = re.sub(r"\w+", _word, text)
    head = f"# Written by scripts/write_sync.py from _async/{name}. Do not edit.\n"
    return head + text


def _uncomment(match: re.Match[str]) -> str:
    return re.sub(r"^( *)# ", r"\1", match.group(1), flags=re.MULTILINE)


def _word(match: re.Match[str]) -> str:
    word = match.group(0)
    if word in WORDS:
        return WORDS[word]
    # AsyncSandbox -> Sandbox, but asyncio stays.
    return word[len("Async") :] if re.match(r"Async[A-Z]", word) else word


def formatted(text: str, name: str) -> str:
    path = str(PACKAGE / "_sync" / name)
    for command in (["check", "--fix", "--select", "I,F401", "--exit-zero"], ["format"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", path, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = ran.stdout
    return text


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = 0
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        if source.name in BY_HAND:
            continue
        text = formatted(translate(source.name, source.read_text("utf-8")), source.name)
        target = PACKAGE / "_sync" / source.name
        if target.exists() and target.read_text("utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"{target.name} is not up to date: run `python scripts/write_sync.py`")
        else:
            target.write_text(text, "utf-8")
            print(f"wrote {target.name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
