"""One agent turn: the model writes Python, a sandbox runs it, and the model reads the output.

The interpreter keeps its variables between the calls, and errors go back to the model.

With a model:     OPENAI_API_KEY=... python examples/agent_turn.py
With a recording: python examples/_model/play.py agent_turn
"""

from __future__ import annotations

import json
import textwrap

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from pandastack import Sandbox

STEPS_MAX = 10

ORDERS = """\
month,region,amount
2026-01,north,1200.50
2026-01,south,840.00
2026-02,north,n/a
2026-02,south,1910.25
2026-03,north,1475.00
2026-03,south,990.75
"""

RUN_PYTHON: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "run_python",
        "description": "Run Python. Variables stay for the next call. Print what you need.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
        },
    },
}


def run_python(sandbox: Sandbox, code: str) -> str:
    result = sandbox.run(code, language="python", timeout_seconds=60)
    # The last line of a traceback is enough for a model to try again.
    error = result.error.strip().splitlines()[-1] if result.error else ""
    return f"{result.stdout}{error}".strip() or "(no output)"


def agent_turn(sandbox: Sandbox, question: str) -> str:
    model = OpenAI()
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": question}]
    for _ in range(STEPS_MAX):
        answer = model.chat.completions.create(
            model="gpt-4.1", messages=messages, tools=[RUN_PYTHON]
        )
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.to_dict())  # type: ignore[arg-type]
        for call in message.tool_calls:
            assert call.type == "function"
            code = json.loads(call.function.arguments)["code"]
            output = run_python(sandbox, code)
            print(textwrap.indent(code.strip(), ">>> "), output, sep="\n", end="\n\n")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
    raise RuntimeError(f"no answer after {STEPS_MAX} steps")


def main() -> None:
    # Code of a model needs no internet: the empty list allows no host.
    with Sandbox(template="code-interpreter", egress_allowlist=[]) as sandbox:
        sandbox.filesystem.write("/data/orders.csv", ORDERS)
        print(agent_turn(sandbox, "Which month of /data/orders.csv has the highest sales?"))


if __name__ == "__main__":
    main()
