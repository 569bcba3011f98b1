"""Lists and calls through the Python SDK: client.py URL TOKEN FUNCTION ARGUMENTS"""
import asyncio
import json
import sys

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url, token, name, arguments):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                tools = await session.list_tools()
                result = await session.call_tool(name, json.loads(arguments))
                print(json.dumps({"tools": [t.name for t in tools.tools], "result": result.model_dump(mode="json")}))


asyncio.run(main(*sys.argv[1:]))
