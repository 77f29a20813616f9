# SPDX-License-Identifier: Apache-2.0
"""What the scripted models of the tests say, in the words of their makers: one answer in two halves, and to a coding agent one
step with a tool before it. The second half waits until somebody has heard the first (/go)."""
import json

TEXT = ("What is far away ", "comes near.")
MADE = "made by a tool"  # what the agent's step writes into made.txt, in the folder in which it runs
PLACES = ("/v1/messages", "/v1/chat/completions")


def events(*list, named=True):
    return "".join((f"event: {one['type']}\n" if named else "") + f"data: {json.dumps(one)}\n\n" for one in list)


def chunk(text, reason=None):
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]}


OPENAI = (
    events(chunk(TEXT[0]), named=False),
    events(chunk(TEXT[1]), chunk("", "stop"), named=False) + "data: [DONE]\n\n",
)
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": [], "stop_reason": None,
           "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip


def anthropic(block, reason, *deltas):
    """One block of content, in two halves: up to the first delta, and the rest."""
    pieces = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    return (
        events(
            {"type": "message_start", "message": MESSAGE},
            {"type": "content_block_start", "index": 0, "content_block": block},
            pieces[0],
        ),
        events(
            *pieces[1:],
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ),
    )


ANTHROPIC = anthropic({"type": "text", "text": ""}, "end_turn", *({"type": "text_delta", "text": text} for text in TEXT))
STEP = {"command": f"echo {MADE} >made.txt", "description": "writes a file"}
TOOL = anthropic(
    {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
    "tool_use",
    {"type": "input_json_delta", "partial_json": json.dumps(STEP)},
)


def parts_of(messages):
    """The parts of all messages. An agent sends its messages in parts, a plain client each as one text."""
    return [part for message in messages if isinstance(message["content"], list) for part in message["content"]]


def answer(place, body):
    """(first half, second half, whether the second waits for /go); None when it is no model that is asked, or for no stream."""
    if place not in PLACES:
        return None
    asked = json.loads(body) if body else {"stream": True}
    if not asked.get("stream"):
        return None
    if place != "/v1/messages":
        return (*OPENAI, True)
    parts = parts_of(asked.get("messages", []))
    if not parts or any(part["type"] == "tool_result" for part in parts):
        return (*ANTHROPIC, True)
    # Beside its work an agent asks for a title, without tools. Nobody tells of what it hears there.
    return (*TOOL, False) if asked.get("tools") else (*ANTHROPIC, False)
