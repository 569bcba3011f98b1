#!/usr/bin/env python3
"""A streamable HTTP MCP server for tests that does exactly what it is told to. Prints its port first.

Usage: endpoint.py [CONFIG], CONFIG a JSON object (all members optional), changed while it runs by POST /_set:
  era       handshake (default) | modern
  sessions  give out session ids; requests with another one get `lost` (404)
  sse       answer as an event stream
  get       status of a GET; 200 keeps a stream open
  probe     [status, body] of server/discover in the handshake era; "<never>" never answers
  late      the probe is answered only after an initialize
  init      [status, body] of initialize instead of an answer
  pages     {cursor or "<none>": the raw result of tools/list}
  chunks    [base64, ...]: the body of tools/list's event stream, piece by piece
  announces whether list changes are announced; true unless given
  log       file that gets a JSON line for each request, and one when a client hangs up
  other     where /cross redirects to

POST /_set {"push": TEXT} writes an event with TEXT to each open stream; {"hang_up": true} ends those;
{"forget": true} forgets all sessions.
Paths: /mcp, /same (307 to /mcp), /found (302 to /mcp), /loop (307 to itself), /round (307 to /round?n), /cross.
Functions: later {"retry", "streams", "get"} (the stream ends, as do "streams" of those of GETs before the answer),
ask_aside (the question is written to the open streams of GETs),
echo, progress, slow (progress, then nothing), status {"code","body"}, cut, html, announce, big {"bytes"},
input, odd, ask, spoilt, polled {"polls", "retry", "cut", "status"} (its stream ends, or is cut, before the answer, which comes
when it was gone on with so often; every GET for it is answered with `status` instead).

The older transport: GET /sse names /messages (or CONFIG's `endpoint`, a list of what it names) and carries the answers;
`drop` ends that stream at the next message.
"""
import base64, json, queue, re, select, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONFIG = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
LOCK = threading.Lock()
SESSIONS, STREAMS, COUNT = set(), [], [0]
POLLED = {}
OLD = {}
OBJECT = {"type": "object"}


def member(text, name):
    at = text.index('"%s":' % name) + len(name) + 3
    _, end = json.JSONDecoder().raw_decode(text, at)
    return text[at:end]


def log(entry):
    if CONFIG.get("log"):
        with LOCK, open(CONFIG["log"], "a") as out:
            out.write(json.dumps(entry) + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def plain(self, status, body=b"", kind="application/json", extra=()):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        for name, value in extra:
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin(self, extra=()):
        self.send_response(200)
        for name, value in extra:
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def piece(self, data):
        data = data if isinstance(data, bytes) else data.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def end(self):
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def event(self, text):
        self.piece("event: message\r\ndata: %s\r\n\r\n" % text)

    def reply(self, text, extra=()):
        if CONFIG.get("sse"):
            self.begin(extra)
            self.event(text)
            self.end()
        else:
            self.plain(200, text, extra=extra)

    def result(self, i, raw):
        if CONFIG.get("era") == "modern" and '"resultType"' not in raw:
            raw = '{"resultType":"complete",' + raw[1:]
        return '{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(i), raw)

    def wait_hang_up(self, i):
        """Returns when the client has closed the connection."""
        while self.connection.recv(1024):
            pass
        log({"closed": i})
        self.close_connection = True

    def hold(self, first):
        """Keeps a stream open for pushed events."""
        events = queue.Queue()
        self.begin()
        for text in first:
            self.event(text)
        with LOCK:
            STREAMS.append(events)
        while True:
            text = events.get()
            if text is None:
                self.end()
                return
            self.event(text)

    def known(self):
        if not CONFIG.get("sessions") or CONFIG.get("era") == "modern":
            return True
        session = self.headers.get("Mcp-Session-Id")
        if session in SESSIONS:
            return True
        self.plain(CONFIG.get("lost", 404), '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
        return False

    def entry(self, body=None):
        """Writes the request down; what follows goes by its path alone, but for the place of the older transport."""
        names = {name.lower(): value for name, value in self.headers.items()}
        log({"method": self.command, "path": self.path, "headers": names, "body": body,
             "rpc": json.loads(body).get("method") if body else None})
        if not self.path.startswith("/messages"):
            self.path = self.path.partition("?")[0]

    def polled(self, key, at):
        """One of the streams that together answer a call."""
        left = POLLED[key]
        self.begin()
        if at == 0:
            self.piece("id: %s-0\nretry: %d\ndata:\n\n" % (key, left["retry"]))
        elif at < left["polls"]:
            self.piece("id: %s-%d\nretry: %d\ndata: %s\n\n" % (key, at, left["retry"], left["told"] % at))
        else:
            self.piece("id: %s-%d\ndata: %s\n\n" % (key, at, left["answer"]))
        if left["cut"] and at < left["polls"]:
            self.close_connection = True
        else:
            self.end()

    def old(self):
        """The stream of the older transport."""
        with LOCK:
            COUNT[0] += 1
            key = str(COUNT[0])
            events = OLD[key] = queue.Queue()
        self.begin()
        for named in CONFIG.get("endpoint", ["/messages?sid=%s"]):
            self.piece("event: endpoint\r\ndata: %s\r\n\r\n" % named.replace("%s", key).replace("PORT", str(PORT[0])))
        while True:
            text = events.get()
            if text is None:
                return self.end()
            self.event(text)

    def old_message(self, body):
        key = self.path.partition("sid=")[2]
        if key not in OLD:
            return self.plain(404, "no such session")
        if CONFIG.pop("drop", None):
            OLD.pop(key).put(None)
            if CONFIG.pop("dropped_first", None):
                return self.plain(404, "no such session")
            return self.plain(202, "Accepted", "text/plain")
        message = json.loads(body)
        i, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        say = OLD[key].put
        self.plain(202, "Accepted", "text/plain")
        if method == "initialize":
            say(self.result(i, json.dumps({"protocolVersion": "2024-11-05", "capabilities": {"tools": {"listChanged": True}},
                                           "serverInfo": {"name": "t", "version": "1"}})))
        elif method == "tools/list":
            say(self.result(i, json.dumps({"tools": [{"name": "echo", "inputSchema": OBJECT}]})))
        elif method == "tools/call" and params["name"] == "echo":
            token = (params.get("_meta") or {}).get("progressToken")
            if token is not None:
                say('{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1.50}}' % json.dumps(token))
            say(self.result(i, '{"content":[],"structuredContent":%s}' % (member(body, "arguments") if "arguments" in params else "null")))
        elif method == "tools/call" and params["name"] == "change":
            say('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
            say('{"jsonrpc":"2.0","id":"mine","method":"ping"}')
            say(self.result(i, '{"content":[]}'))
        elif method == "tools/call" and params["name"] == "spoilt":
            say('{"jsonrpc":"2.0","id":%d,"result":{"content":NaN}}' % i)
        elif method == "ping":
            say(self.result(i, "{}"))

    def do_GET(self):
        self.entry()
        if self.path == "/sse":
            return self.old()
        last = self.headers.get("Last-Event-ID")
        if last and last.partition("-")[0] in POLLED:
            key, _, at = last.partition("-")
            if POLLED[key]["status"]:
                return self.plain(POLLED[key]["status"])
            return self.polled(key, int(at) + 1)
        status = CONFIG.get("get", 405)
        if not self.known():
            return
        if (last or "").startswith("at-"):
            return self.go_on(int(self.headers["Last-Event-ID"].rsplit("-", 1)[1]))
        if status == 200:
            self.hold([])
        else:
            self.plain(status)

    def go_on(self, number):
        later = CONFIG["later"]
        if "get" in later:
            return self.plain(later["get"])
        self.begin()
        if number > later["streams"]:
            self.event(later["answer"])
        else:
            self.piece("id: at-%d\ndata: \n\n" % (number + 1))
        self.end()

    def do_DELETE(self):
        self.entry()
        SESSIONS.discard(self.headers.get("Mcp-Session-Id"))
        self.plain(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/_set":
            return self.set(json.loads(body))
        self.entry(body)
        if self.path.startswith("/messages"):
            return self.old_message(body)
        if self.path == "/sse":
            return self.plain(CONFIG.get("post", 405))
        moved = {"/same": "/mcp", "/loop": "/loop", "/cross": CONFIG.get("other")}
        if self.path in moved:
            return self.plain(307, extra=[("Location", moved[self.path])])
        if self.path == "/found":
            return self.plain(302, extra=[("Location", "/mcp")])
        if self.path.startswith("/round"):
            return self.plain(307, extra=[("Location", self.path + "n")])
        message = json.loads(body)
        i, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            return self.initialize(i, params)
        if method == "server/discover":
            return self.discover(i)
        if not self.known():
            return
        if i is None or method is None:
            return self.plain(202)
        if method == "subscriptions/listen":
            ack = '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%d}}}' % i
            return self.hold([ack])
        if method == "ping":
            return self.reply(self.result(i, "{}"))
        if method == "tools/list":
            return self.list(i, params)
        if method == "tools/call":
            return self.call(i, body, params)
        self.plain(404, json.dumps({"jsonrpc": "2.0", "id": i, "error": {"code": -32601, "message": "Method not found"}}))

    def set(self, change):
        if change.pop("forget", None):
            SESSIONS.clear()
        push, hang_up = change.pop("push", None), change.pop("hang_up", None)
        CONFIG.update(change)
        with LOCK:
            streams = list(STREAMS)
            if hang_up:
                STREAMS.clear()
        for stream in streams:
            if push is not None:
                stream.put(push)
            if hang_up:
                stream.put(None)
        self.plain(200, json.dumps({"streams": len(streams)}))

    def initialize(self, i, params):
        CONFIG["declined"] = True
        if "init" in CONFIG:
            return self.plain(*CONFIG["init"])
        extra = []
        if CONFIG.get("sessions"):
            with LOCK:
                COUNT[0] += 1
                SESSIONS.add("s%d" % COUNT[0])
                extra = [("Mcp-Session-Id", "s%d" % COUNT[0])]
        self.reply(self.result(i, json.dumps({
            "protocolVersion": CONFIG.get("version", params["protocolVersion"]),
            "capabilities": {"tools": {"listChanged": CONFIG.get("announces", True)}}, "serverInfo": {"name": "t", "version": "1"}})), extra)

    def discover(self, i):
        if CONFIG.get("late") and not CONFIG.get("declined"):
            return self.wait_hang_up(i)
        if CONFIG.get("era") == "modern":
            return self.reply(self.result(i, json.dumps({
                "supportedVersions": CONFIG.get("versions", ["2026-07-28"]),
                "capabilities": {"tools": {"listChanged": True}}, "ttlMs": 0, "cacheScope": "public"})))
        probe = CONFIG.get("probe", [400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}'])
        if probe == "<never>":
            return self.wait_hang_up(i)
        self.plain(*probe)

    def list(self, i, params):
        if "chunks" in CONFIG:
            self.begin()
            for chunk in CONFIG["chunks"]:
                self.piece(base64.b64decode(chunk))
            return self.end()
        if "pages" in CONFIG:
            page = CONFIG["pages"].get(params["cursor"] if "cursor" in params else "<none>")
            if page is None:
                return self.plain(400, json.dumps({"jsonrpc": "2.0", "id": i, "error": {"code": -32602, "message": "Invalid cursor"}}))
            return self.reply(self.result(i, page))
        self.reply(self.result(i, json.dumps({"tools": [{"name": n, "inputSchema": OBJECT} for n in ("echo", "progress")]})))

    def call(self, i, body, params):
        name, args = params["name"], params.get("arguments") or {}
        token = (params.get("_meta") or {}).get("progressToken")
        text = lambda t: self.result(i, json.dumps({"content": [{"type": "text", "text": t}]}))
        told = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1.50,"total":9007199254740993}}' % json.dumps(token)
        if name == "echo":
            self.reply(self.result(i, '{"content":[],"structuredContent":%s}' % (member(body, "arguments") if "arguments" in params else "null")))
        elif name in ("progress", "slow"):
            self.begin()
            self.piece(": comment\n\n")
            self.event(told)
            self.event(told.replace("Token\":", "Token\":99"))
            if name == "slow":
                return self.wait_hang_up(i)
            self.event(text("done"))
            self.end()
        elif name == "later":
            CONFIG["later"] = {**args, "answer": text("later")}
            self.begin()
            self.piece("id: at-1\nretry: %d\ndata: \n\n" % args["retry"])
            self.event(told)
            self.end()
        elif name == "ask_aside":
            with LOCK:
                streams = list(STREAMS)
            for stream in streams:
                stream.put('{"jsonrpc":"2.0","id":"mine","method":"elicitation/create","params":{"message":"?"}}')
            self.plain(200, text("to %d streams" % len(streams))) if not streams else self.wait_hang_up(i)
        elif name == "status":
            self.plain(args["code"], args.get("body", ""), args.get("kind", "application/json"), args.get("headers", []))
        elif name == "cut":
            self.close_connection = True
        elif name == "html":
            self.plain(200, "<html>", "text/html; charset=utf-8")
        elif name == "announce":
            self.begin()
            self.event('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
            self.event(text("announced"))
            self.end()
        elif name == "ask":
            self.begin()
            self.event('{"jsonrpc":"2.0","id":"mine","method":"elicitation/create","params":%s}' % json.dumps(args))
            if args.get("wait"):
                return self.wait_hang_up(i)
            self.event(text("asked"))
            self.end()
        elif name == "big":
            self.reply(text("y" * args["bytes"]))
        elif name == "input":
            self.reply(self.result(i, '{"resultType":"input_required","requestState":"x"}'))
        elif name == "odd":
            self.reply(self.result(i, '{"resultType":"%s","content":[]}' % args.get("type", "task")))
        elif name == "polled":
            key = "k%d" % i
            POLLED[key] = {"polls": args["polls"], "retry": args.get("retry", 1), "cut": args.get("cut"),
                           "status": args.get("status"), "answer": text("after %d" % args["polls"]),
                           "told": told.replace('"progress":1.50', '"progress":%d')}
            self.polled(key, 0)
        elif name == "spoilt":
            self.reply(self.result(i, '{"content":[],"structuredContent":NaN}'))
        else:
            self.plain(400, json.dumps({"jsonrpc": "2.0", "id": i, "error": {"code": -32602, "message": "Unknown tool"}}))


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
PORT = [server.server_address[1]]
print(server.server_address[1], flush=True)
server.serve_forever()
