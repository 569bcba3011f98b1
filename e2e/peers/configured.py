"""Starts what an MCP client's configuration names, as that client documents it, lists and calls:

    configured.py CLIENT FILE FUNCTION ARGUMENTS

claude-code: `.mcp.json`, `mcpServers.NAME` with `command`, `args` and `env`; `type` is `stdio` unless given.
codex: `config.toml`, `[mcp_servers.NAME]` with `command`, `args` and `env`; a `url` would make it a remote one.
opencode: `opencode.json`, `mcp.NAME` with `type` `local`, `command` as a list, `environment` and `enabled`.
"""
import asyncio
import json
import sys
import tomllib

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def only(servers):
    (server,) = servers.values()
    return server


def claude_code(text):
    server = only(json.loads(text)["mcpServers"])
    assert server.get("type", "stdio") == "stdio", server
    assert set(server) <= {"type", "command", "args", "env"}, server
    return StdioServerParameters(command=server["command"], args=server.get("args", []), env=server.get("env"))


def codex(text):
    server = only(tomllib.loads(text)["mcp_servers"])
    # Members of the other transport are an error there.
    assert set(server) <= {"command", "args", "env", "env_vars", "cwd", "enabled"}, server
    assert server.get("enabled", True), server
    return StdioServerParameters(command=server["command"], args=server.get("args", []), env=server.get("env"))


def opencode(text):
    config = json.loads(text)
    assert config["$schema"] == "https://opencode.ai/config.json", config
    server = only(config["mcp"])
    assert server["type"] == "local" and server.get("enabled", True), server
    command, *arguments = server["command"]
    return StdioServerParameters(command=command, args=arguments, env=server.get("environment"))


async def main(client, file, name, arguments):
    with open(file, encoding="utf-8") as text:
        parameters = {"claude-code": claude_code, "codex": codex, "opencode": opencode}[client](text.read())
    async with stdio_client(parameters) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            result = await session.call_tool(name, json.loads(arguments))
            print(json.dumps({"tools": tools, "result": result.model_dump(mode="json", by_alias=True)}))


asyncio.run(main(*sys.argv[1:]))
