// Calls through the second TypeScript SDK as a client that can be asked:
//   node client2.mjs URL TOKEN MODE FUNCTION ARGUMENTS [cancel]
// MODE is `legacy` (with a handshake) or a revision without one. With `cancel` the call is given up at its first progress.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, token, mode, name, args, cancel] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${token}` } },
});
const client = new Client(
  { name: "pintle-e2e", version: "1.0.0" },
  {
    capabilities: { elicitation: {}, sampling: {} },
    versionNegotiation: { mode: mode === "legacy" ? "legacy" : { pin: mode } },
  },
);
const asked = [];
client.setRequestHandler("elicitation/create", async ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: { name: "Ada", confirmed: true } };
});
client.setRequestHandler("sampling/createMessage", async ({ params }) => {
  asked.push(params.messages[0].content.text);
  return { role: "assistant", model: "stub", content: { type: "text", text: "forty-two" } };
});
await client.connect(transport);
const { tools } = await client.listTools();
const progress = [];
const stop = new AbortController();
const onprogress = ({ progress: done }) => {
  progress.push(done);
  if (cancel) stop.abort("given up");
};
let result, error;
try {
  result = await client.callTool({ name, arguments: JSON.parse(args) }, { onprogress, signal: stop.signal });
} catch (thrown) {
  if (!cancel) throw thrown;
  error = String(thrown);
}
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), asked, progress, result, error }));
await client.close();
