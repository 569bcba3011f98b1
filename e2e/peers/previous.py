"""Calls through the Python SDK of the time before revision 2026-07-28, as a client that can be asked:

    previous.py URL TOKEN FUNCTION ARGUMENTS
"""
import asyncio
import json
import sys

from mcp import ClientSession, types
from mcp.client.streamable_http import streamablehttp_client


async def main(url, token, name, arguments):
    asked, progress = [], []

    async def elicit(_context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada", "confirmed": True})

    async def sample(_context, params):
        asked.append(params.messages[0].content.text)
        text = types.TextContent(type="text", text="forty-two")
        return types.CreateMessageResult(role="assistant", model="stub", content=text)

    async def note(done, _total, _message):
        progress.append(done)

    async with streamablehttp_client(url, headers={"Authorization": f"Bearer {token}"}) as streams:
        async with ClientSession(streams[0], streams[1], elicitation_callback=elicit, sampling_callback=sample) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            result = await session.call_tool(name, json.loads(arguments), progress_callback=note)
            result = result.model_dump(mode="json", by_alias=True)
            print(json.dumps({"tools": tools, "asked": asked, "progress": progress, "result": result}))


asyncio.run(main(*sys.argv[1:]))
