// Calls through the TypeScript SDK as a client that can be asked: node asked.mjs URL TOKEN FUNCTION ARGUMENTS
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CreateMessageRequestSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [url, token, name, args] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${token}` } },
});
const capabilities = { elicitation: {}, sampling: {} };
const client = new Client({ name: "pintle-e2e", version: "1.0.0" }, { capabilities });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: { name: "Ada", confirmed: true } };
});
client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => {
  asked.push(params.messages[0].content.text);
  return { role: "assistant", model: "stub", content: { type: "text", text: "forty-two" } };
});
await client.connect(transport);
const result = await client.callTool({ name, arguments: JSON.parse(args) });
console.log(JSON.stringify({ asked, result }));
await client.close();
