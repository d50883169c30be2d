"""How requests and answers look in the three dialects of the recorded model."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

Body = dict[str, Any]


class Request(NamedTuple):
    """What the model is told: the text since its last turn, and whose results are in it."""

    heard: str
    results: set[str]
    tools: set[str]


class Turn(NamedTuple):
    """What the model answers: texts (several, if it was asked for several), or tool calls."""

    number: int
    says: list[str]
    calls: list[Body]


def call_id(turn: int, index: int) -> str:
    return f"call_{turn}_{index}"


def read_chat(body: Body) -> Request:
    newest = _since_last(body["messages"], lambda one: one["role"] == "assistant")
    results = {one["tool_call_id"] for one in newest if one["role"] == "tool"}
    tools = {one["function"]["name"] for one in body.get("tools", [])}
    return Request(_text([one.get("content") for one in newest]), results, tools)


def write_chat(turn: Turn) -> Body:
    calls = [
        {
            "id": call_id(turn.number, index),
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["input"])},
        }
        for index, call in enumerate(turn.calls)
    ]
    messages: list[Body] = [{"role": "assistant", "content": text} for text in turn.says]
    if calls:
        messages = [{"role": "assistant", "content": None, "tool_calls": calls}]
    reason = "tool_calls" if calls else "stop"
    return {
        "id": f"chatcmpl-{turn.number}",
        "object": "chat.completion",
        "created": 0,
        "model": "recorded",
        "choices": [
            {"index": index, "message": message, "finish_reason": reason}
            for index, message in enumerate(messages)
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def read_responses(body: Body) -> Request:
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]

    def own(item: Body) -> bool:
        return item.get("role") == "assistant" or item.get("type") == "function_call"

    newest = _since_last(items, own)
    outputs = [one for one in newest if one.get("type") == "function_call_output"]
    heard = _text([one.get("content", one.get("output")) for one in newest])
    tools = {one["name"] for one in body.get("tools", []) if "name" in one}
    return Request(heard, {one["call_id"] for one in outputs}, tools)


def write_responses(turn: Turn) -> Body:
    output: list[Body] = [
        {
            "id": f"fc_{turn.number}_{index}",
            "type": "function_call",
            "status": "completed",
            "call_id": call_id(turn.number, index),
            "name": call["name"],
            "arguments": json.dumps(call["input"]),
        }
        for index, call in enumerate(turn.calls)
    ]
    for text in turn.says:
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        message = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant"}
        output.append({**message, "status": "completed", "content": content})
    return {
        "id": f"resp_{turn.number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "recorded",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


def read_messages(body: Body) -> Request:
    newest = _since_last(body["messages"], lambda one: one["role"] == "assistant")
    parts = [part for one in newest if isinstance(one["content"], list) for part in one["content"]]
    results = {part["tool_use_id"] for part in parts if part["type"] == "tool_result"}
    tools = {one["name"] for one in body.get("tools", [])}
    return Request(_text([one["content"] for one in newest]), results, tools)


def write_message(turn: Turn) -> Body:
    content: list[Body] = [{"type": "text", "text": text} for text in turn.says]
    for index, call in enumerate(turn.calls):
        use = {"type": "tool_use", "id": call_id(turn.number, index)}
        content.append({**use, "name": call["name"], "input": call["input"]})
    return {
        "id": f"msg_{turn.number}",
        "type": "message",
        "role": "assistant",
        "model": "recorded",
        "content": content,
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def stream_message(turn: Turn) -> list[Body]:
    message = write_message(turn)
    start = {**message, "content": [], "stop_reason": None}
    events: list[Body] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty: Body = {"type": "text", "text": ""}
            delta: Body = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": message["usage"]})
    return [*events, {"type": "message_stop"}]


def _since_last(items: list[Body], own: Any) -> list[Body]:
    """The items after the model's own last one."""
    last = max((at for at, item in enumerate(items) if own(item)), default=-1)
    return items[last + 1 :]


def _text(content: Any) -> str:
    """All texts in a content, which can be a text, a part, or a list of these."""
    if isinstance(content, list):
        return "\n".join(_text(part) for part in content)
    if isinstance(content, dict):
        return _text(content.get("text", content.get("content", "")))
    return content or ""
