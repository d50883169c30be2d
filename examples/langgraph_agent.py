"""LangGraph: the machine is part of the graph's state, so going back in time takes it along.

Each step of the tools starts a sandbox from the snapshot in the state and leaves a new snapshot.
LangGraph keeps the snapshot of every step. Here the agent deletes too much, and we go back.

With a model:     OPENAI_API_KEY=... python examples/langgraph_agent.py
With a recording: python examples/_model/play.py langgraph_agent
"""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition

from pandastack import PandaStack, Sandbox


class State(MessagesState):
    snapshot: str


@tool
def shell(command: str) -> str:
    """Run a shell command in /blog."""
    raise NotImplementedError("the node `tools` runs it, because it needs the state")


model = ChatOpenAI(model="gpt-4.1").bind_tools([shell])


def think(state: State) -> dict[str, Any]:
    return {"messages": [model.invoke(state["messages"])]}


def use_tools(state: State) -> dict[str, Any]:
    asked, results = state["messages"][-1], []
    assert isinstance(asked, AIMessage)
    with Sandbox.from_snapshot(state["snapshot"]) as sandbox:
        for call in asked.tool_calls:
            command = call["args"]["command"]
            result = sandbox.exec(command, cwd="/blog", timeout_seconds=60)
            output = (result.stdout + result.stderr).strip() or "(no output)"
            print(f"$ {command}\n{output}")
            results.append(ToolMessage(output, tool_call_id=call["id"]))
        return {"messages": results, "snapshot": sandbox.snapshot()}


graph = (
    StateGraph(State)
    .add_node("think", think)
    .add_node("tools", use_tools)
    .add_edge(START, "think")
    .add_conditional_edges("think", tools_condition)
    .add_edge("tools", "think")
    .compile(checkpointer=InMemorySaver())
)


def main() -> None:
    with Sandbox(template="code-interpreter") as sandbox:
        for name in ("bamboo.md", "draft-eating.md", "sleeping.md"):
            sandbox.filesystem.write(f"/blog/{name}", f"About {name}\n")
        start = sandbox.snapshot()

    config: Any = {"configurable": {"thread_id": "1"}}
    task = HumanMessage("List the posts, then delete those that are not finished.")
    state = graph.invoke({"messages": [task], "snapshot": start}, config)
    print(state["messages"][-1].content, end="\n\n")

    # Newest first: after the first step of the tools, the model had only looked.
    steps = [step for step in graph.get_state_history(config) if step.next == ("think",)]
    looked = steps[-2]
    print("back to the step after the listing")
    hint = HumanMessage("Only files whose names begin with draft- are not finished.")
    back = graph.update_state(looked.config, {"messages": [hint]}, as_node="tools")
    state = graph.invoke(None, back)
    print(state["messages"][-1].content)

    states = [step.values for step in graph.get_state_history(config)]
    with PandaStack() as client:
        for snapshot in {state["snapshot"] for state in states if "snapshot" in state}:
            client.snapshots.delete(snapshot)


if __name__ == "__main__":
    main()
