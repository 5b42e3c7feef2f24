// A server over HTTP that requires a sign-in, and its authorization server with a page on which a user agrees. Both on one
// loopback address; written by hand and as small as the flow allows: registration, a code with PKCE, one kind of token.
import { createHash, randomUUID } from "node:crypto";
import { createServer } from "node:http";

// options: { clientId: the only client, which is registered by hand; discovery: whether it names its endpoints }
export async function startSigned({ clientId = null, discovery = true } = {}) {
  const codes = new Map();
  const asked = [];
  const tokens = new Set();
  const server = createServer(async (request, response) => {
    const origin = `http://127.0.0.1:${server.address().port}`;
    const url = new URL(request.url, origin);
    asked.push(url.pathname);
    let text = "";
    for await (const piece of request) text += piece;
    const send = (status, value, headers = {}) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
    const handlers = {
      "/mcp": () => answer(request, text, tokens, send, origin),
      "/.well-known/oauth-protected-resource": () => send(200, { resource: `${origin}/mcp`, authorization_servers: [origin] }),
      "/.well-known/oauth-protected-resource/mcp": () => send(200, { resource: `${origin}/mcp`, authorization_servers: [origin] }),
      "/.well-known/oauth-authorization-server": () => send(200, metadata(origin)),
      "/register": () => send(201, { ...JSON.parse(text), client_id: "story", token_endpoint_auth_method: "none" }),
      "/authorize": () => response.writeHead(200, { "content-type": "text/html" }).end(page(url.searchParams)),
      "/agree": () => {
        const code = randomUUID();
        codes.set(code, url.searchParams.get("code_challenge"));
        goBack(response, url.searchParams, { code, iss: origin });
      },
      "/refuse": () => goBack(response, url.searchParams, { error: "access_denied", iss: origin }),
      "/token": () => exchange(new URLSearchParams(text), codes, tokens, send),
    };
    if (!discovery && url.pathname.startsWith("/.well-known/")) return send(404, {});
    if (clientId !== null && url.pathname === "/register") return send(403, {});
    if (clientId !== null && url.pathname === "/authorize" && url.searchParams.get("client_id") !== clientId) return send(400, { error: "invalid_client" });
    (handlers[url.pathname] ?? (() => send(404, {})))();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;
  return { origin, asked, url: `${origin}/mcp`, close: () => server.closeAllConnections() ?? server.close() };
}

function metadata(origin) {
  return {
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    response_types_supported: ["code"],
    grant_types_supported: ["authorization_code"],
    code_challenge_methods_supported: ["S256"],
    token_endpoint_auth_methods_supported: ["none"],
    authorization_response_iss_parameter_supported: true,
  };
}

// The query is passed on in a link; it contains nothing that is markup.
function page(query) {
  const onward = query.toString().replace(/&/g, "&amp;");
  return `<!doctype html><meta charset="utf-8"><title>Tickets</title><link rel="icon" href="data:,"><h1>Tickets</h1><p><a href="/agree?${onward}">Agree</a> <a href="/refuse?${onward}">Refuse</a></p>`;
}

function goBack(response, query, answer) {
  const back = new URL(query.get("redirect_uri"));
  for (const [key, value] of Object.entries({ ...answer, state: query.get("state") })) back.searchParams.set(key, value);
  response.writeHead(302, { location: back.href }).end();
}

function exchange(given, codes, tokens, send) {
  const challenge = codes.get(given.get("code"));
  codes.delete(given.get("code"));
  const proof = createHash("sha256").update(given.get("code_verifier") ?? "").digest("base64url");
  if (challenge === undefined || proof !== challenge) return send(400, { error: "invalid_grant" });
  const token = randomUUID();
  tokens.add(token);
  return send(200, { access_token: token, token_type: "Bearer", expires_in: 3600 });
}

const TOOL = { name: "list_tickets", description: "List your tickets", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } };
const RESULTS = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "tickets", title: "Tickets", version: "1" } },
  "tools/list": { tools: [TOOL] },
  "tools/call": { content: [{ type: "text", text: "No open tickets." }] },
  ping: {},
};

function answer(request, text, tokens, send, origin) {
  const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
  if (!tokens.has(token)) return send(401, { error: "unauthorized" }, { "www-authenticate": `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"` });
  if (request.method !== "POST") return send(405, {});
  const { id, method } = JSON.parse(text);
  if (id === undefined) return send(202, {});
  const result = RESULTS[method];
  return send(200, { jsonrpc: "2.0", id, ...(result ? { result } : { error: { code: -32601, message: "method not found" } }) });
}
