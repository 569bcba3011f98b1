"""An MCP server over stdio, with nothing but Python's standard library.

One JSON-RPC message a line: requests come in on stdin, answers go out on stdout. Whatever is written
to stderr lands in the node's log of this tool.
"""

import json
import sys

PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

TOOLS = [
    {
        "name": "hello",
        "title": "Say hello",
        "description": "Says hello to a person.",
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Whom to greet."}},
            "required": ["name"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "count_words",
        "title": "Count words",
        "description": "Counts the words of a text.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The text."}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
]


class Refused(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def text(value, is_error=False):
    """A tool's result that holds one text."""
    return {"content": [{"type": "text", "text": value}], "isError": is_error}


def hello(name):
    return f"Hello, {name}!"


def count_words(text):
    return f"{len(text.split())} words"


# Each function with the one argument that it takes.
FUNCTIONS = {"hello": (hello, "name"), "count_words": (count_words, "text")}


def call(params):
    """Runs one function. What the caller got wrong is a result, so that a model can read it."""
    if params.get("name") not in FUNCTIONS:
        raise Refused(-32602, f"unknown tool: {params.get('name')}")
    function, argument = FUNCTIONS[params["name"]]
    arguments = params.get("arguments")
    value = arguments.get(argument) if isinstance(arguments, dict) else None
    if not isinstance(value, str) or not value.strip():
        return text(f"`{argument}` must be a text that is not empty", is_error=True)
    return text(function(value))


def answer(method, params):
    """The result of one request."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in PROTOCOLS else PROTOCOLS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hello", "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params)
    raise Refused(-32601, f"unknown method: {method}")


def handle(line):
    """The reply to one line, or None where none is due."""
    try:
        message = json.loads(line)
    except ValueError:
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "this is no JSON"}}
    if not isinstance(message, dict) or "method" not in message or "id" not in message:
        return None  # a notification, or an answer that nobody waits for
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        params = message.get("params")
        reply["result"] = answer(message["method"], params if isinstance(params, dict) else {})
    except Refused as refused:
        reply["error"] = {"code": refused.code, "message": str(refused)}
    return reply


def main():
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in sys.stdin:
        reply = handle(line) if line.strip() else None
        if reply is not None:
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
