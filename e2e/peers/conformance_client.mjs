// What the conformance suite starts as the client of each scenario: hands the server's URL to whoever has a node
// speak with it, and ends as that says: node conformance_client.mjs WHERE URL
const [where, url] = process.argv.slice(2);
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context } = process.env;
const body = JSON.stringify({ scenario, url, context: context ? JSON.parse(context) : {} });
const response = await fetch(where, { method: "POST", headers: { "Content-Type": "application/json" }, body });
console.log(await response.text());
process.exitCode = response.ok ? 0 : 1;
