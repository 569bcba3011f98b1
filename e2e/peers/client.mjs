// Lists and calls through the TypeScript SDK: node client.mjs URL TOKEN FUNCTION ARGUMENTS
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token, name, args] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${token}` } },
});
const client = new Client({ name: "pintle-e2e", version: "1.0.0" });
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool({ name, arguments: JSON.parse(args) });
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), result }));
await client.close();
