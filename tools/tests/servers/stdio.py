#!/usr/bin/env python3
"""A stdio MCP server for tests that says exactly what it is told to.

Usage: stdio.py [CONFIG], CONFIG a JSON object (all members optional):
  era      handshake (default) | modern | deaf (handshake, no answer to other methods before it)
           | late (modern, and answers the probe only when initialize comes, which it declines)
           | dies (ends when anything but initialize comes first)
  version  answered to initialize instead of the version asked for
  log      file that gets each line received
  before   text written on stdout first; "eol" another line end than LF; "bom" true: before each line
  pages    {cursor or "<none>": the raw result of tools/list}
  pages_file  the same in a file
  exit     exit at once with this code; "mute" true: never answer; "stderr" text written at the start
  logging  true: declares the logging capability, and takes any level
  hold     true: do not end at the end of stdin
  replay   base64: written in answer to initialize (up to the end of the message with id 1) and to tools/list
           (the rest, then stdout is closed), ids put in

Functions: echo (structuredContent: the arguments, byte for byte), say {"lines": [...]} (writes each line as
it is, <ID> and <TOKEN> replaced; {"b64": ...} for bytes), stuck (no answer), env, exit {"code"},
change (announces a changed list before the answer), noisy (256 KiB on stderr), ask (sends requests of its
own and answers with what came back).
"""
import base64, json, os, re, sys, threading

CONFIG = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
if "pages_file" in CONFIG:
    CONFIG["pages"] = json.load(open(CONFIG["pages_file"]))
ERA = CONFIG.get("era", "handshake")
OUT = sys.stdout.buffer
OBJECT = {"type": "object"}
NAMES = ["echo", "say", "stuck", "env", "exit", "change", "noisy", "ask"]


def write(text):
    line = text if isinstance(text, bytes) else text.encode()
    OUT.write((b"\xef\xbb\xbf" if CONFIG.get("bom") else b"") + line + CONFIG.get("eol", "\n").encode())
    OUT.flush()


def member(text, name, start=0):
    """The raw JSON text of the first member of this name."""
    at = text.index('"%s":' % name, start) + len(name) + 3
    _, end = json.JSONDecoder().raw_decode(text, at)
    return text[at:end]


def answer(i, result):
    write('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(i), result))


def failure(i, code, message, data=None):
    write(json.dumps({"jsonrpc": "2.0", "id": i, "error": {"code": code, "message": message, "data": data}}))


def text(value):
    result = {"content": [{"type": "text", "text": value}]}
    if ERA == "modern":
        result["resultType"] = "complete"
    return json.dumps(result)


def call(i, line, params):
    name, args = params["name"], params.get("arguments") or {}
    token = (params.get("_meta") or {}).get("progressToken")
    if name == "echo":
        raw = member(line, "arguments") if "arguments" in params else "null"
        answer(i, '{"content":[],"structuredContent":%s}' % raw)
    elif name == "say":
        for part in args["lines"]:
            part = base64.b64decode(part["b64"]) if isinstance(part, dict) else part.encode()
            write(part.replace(b"<ID>", str(i).encode()).replace(b"<TOKEN>", json.dumps(token).encode()))
    elif name == "stuck":
        pass
    elif name == "env":
        answer(i, text(json.dumps(dict(os.environ, cwd=os.getcwd(), pgid=os.getpgid(0), pid=os.getpid()))))
    elif name == "exit":
        sys.stderr.write("going down\n")
        sys.stderr.flush()
        os._exit(args.get("code", 0))
    elif name == "change":
        write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        answer(i, text("changed"))
    elif name == "noisy":
        sys.stderr.write(("x" * 127 + "\n") * 2048)
        sys.stderr.flush()
        answer(i, text("noisy"))
    elif name == "ask":
        write('{"jsonrpc":"2.0","id":"mine","method":"sampling/createMessage","params":{}}')
        write('{"jsonrpc":"2.0","id":"ping","method":"ping"}')
        heard = [read(), read()]
        answer(i, text(json.dumps([json.loads(line) for line in heard])))
    else:
        failure(i, -32602, "Unknown tool: " + name)


def pages(i, params):
    page = CONFIG.get("pages")
    if page is None:
        answer(i, json.dumps({"tools": [{"name": n, "inputSchema": OBJECT} for n in NAMES]}))
        return
    raw = page.get(params["cursor"] if "cursor" in params else "<none>")
    if raw is None:
        failure(i, -32602, "Invalid cursor")
    elif raw != "<never>":
        answer(i, raw)


def read():
    line = sys.stdin.buffer.readline().decode()
    if line and CONFIG.get("log"):
        with open(CONFIG["log"], "a") as log:
            log.write(line)
    return line


def replay(i, method):
    data = base64.b64decode(CONFIG["replay"])
    at = data.find(b'"id":1,')
    end = len(data) if at < 0 else data.find(b"\n", at) + 1 or len(data)
    if method == "initialize":
        OUT.write(data[:end].replace(b'"id":1,', b'"id":%d,' % i))
        OUT.flush()
    elif method == "tools/list":
        OUT.write(data[end:].replace(b'"id":2,', b'"id":%d,' % i))
        OUT.flush()
        os.close(1)


def discovery(i):
    answer(i, json.dumps({"resultType": "complete", "supportedVersions": CONFIG.get("versions", ["2026-07-28"]),
                          "capabilities": {"tools": {"listChanged": True}}, "ttlMs": 0, "cacheScope": "public"}))


WAITING = []


def handle(line):
    message = json.loads(line)
    i, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if "replay" in CONFIG and method in ("initialize", "tools/list"):
        return replay(i, method)
    if CONFIG.get("mute") or i is None or method is None:
        return
    if method == "initialize" and ERA == "late":
        for waiting in WAITING:
            discovery(waiting)
        failure(i, -32022, "the initialize handshake is not accepted", {"supported": ["2026-07-28"]})
    elif method == "initialize" and ERA != "modern":
        answer(i, json.dumps({
            "protocolVersion": CONFIG.get("version", params["protocolVersion"]),
            "capabilities": dict({"tools": {"listChanged": True}}, **({"logging": {}} if CONFIG.get("logging") else {})), "serverInfo": {"name": "t", "version": "1"}}))
    elif method == "server/discover":
        if ERA == "dies":
            sys.exit("expected initialize, got " + method)
        if ERA == "modern":
            discovery(i)
        elif ERA == "late":
            WAITING.append(i)
        elif ERA != "deaf":
            failure(i, CONFIG.get("probe_code", -32601), "Method not found", CONFIG.get("probe_data"))
    elif method == "subscriptions/listen" and ERA == "modern":
        meta = '"_meta":{"io.modelcontextprotocol/subscriptionId":%d}' % i
        write('{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{%s}}' % meta)
        write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{%s}}' % meta)
    elif method == "logging/setLevel" and CONFIG.get("logging"):
        answer(i, "{}")
    elif method == "tools/list":
        pages(i, params)
    elif method == "tools/call":
        call(i, line, params)
    else:
        failure(i, -32601, "Method not found")


if "stderr" in CONFIG:
    sys.stderr.write(CONFIG["stderr"])
    sys.stderr.flush()
if "before" in CONFIG:
    OUT.write(CONFIG["before"].encode("latin-1"))
    OUT.flush()
if "exit" in CONFIG:
    sys.exit(CONFIG["exit"])
while True:
    got = read()
    if not got:
        break
    handle(got)
if CONFIG.get("hold"):
    threading.Event().wait(600)
