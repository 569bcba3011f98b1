"""Calls through the Python SDK as a client that can be asked: asked.py URL TOKEN MODE FUNCTION ARGUMENTS

MODE is `legacy` (with a handshake) or a revision without one.
"""
import asyncio
import json
import sys

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client


async def main(url, token, mode, name, arguments):
    asked = []

    async def elicit(_context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada", "confirmed": True})

    async def sample(_context, params):
        asked.append(params.messages[0].content.text)
        text = types.TextContent(type="text", text="forty-two")
        return types.CreateMessageResult(role="assistant", model="stub", content=text)

    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=elicit, sampling_callback=sample) as client:
            result = await client.call_tool(name, json.loads(arguments))
            print(json.dumps({"asked": asked, "result": result.model_dump(mode="json", by_alias=True)}))


asyncio.run(main(*sys.argv[1:]))
