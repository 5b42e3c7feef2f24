// A server over HTTP that admits requests with one credential, by the kind of authentication; and the token endpoint of an
// authorization server for clients that sign in without a user. It does not refer to one, as servers without OAuth do not.
import { randomUUID, verify } from "node:crypto";
import { createServer } from "node:http";

const TOOL = { name: "who", description: "Who asks", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } };
const RESULTS = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "guarded", version: "1" } },
  "tools/list": { tools: [TOOL] },
  "tools/call": { content: [{ type: "text", text: "You." }] },
  ping: {},
};

// options: { admits(headers): whether a request has the credential; client: { id, secret | publicKey } of the token endpoint }
export async function startGuarded({ admits, client = null }) {
  const tokens = new Set();
  const isKnown = ({ authorization = "" }) => tokens.has(/^Bearer (.+)$/.exec(authorization)?.[1]);
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    const origin = `http://127.0.0.1:${server.address().port}`;
    const send = (status, value, headers = {}) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
    const places = { resource: { resource: `${origin}/mcp`, authorization_servers: [origin] }, server: metadata(origin, client) };
    if (client && request.url.startsWith("/.well-known/oauth-protected-resource")) return send(200, places.resource);
    if (client && request.url.startsWith("/.well-known/oauth-authorization-server")) return send(200, places.server);
    if (client && request.url === "/token") {
      const isClient = proves(client, new URLSearchParams(text), request.headers.authorization);
      const token = randomUUID();
      if (isClient) tokens.add(token);
      return isClient ? send(200, { access_token: token, token_type: "Bearer", expires_in: 3600 }) : send(401, { error: "invalid_client" });
    }
    if (request.url !== "/mcp") return send(404, {});
    const challenge = client ? `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"` : "Bearer";
    if (!(client ? isKnown(request.headers) : admits(request.headers))) return send(401, { error: "unauthorized" }, { "www-authenticate": challenge });
    if (request.method !== "POST") return send(405, {});
    const { id, method } = JSON.parse(text);
    if (id === undefined) return send(202, {});
    const result = RESULTS[method];
    return send(200, { jsonrpc: "2.0", id, ...(result ? { result } : { error: { code: -32601, message: "method not found" } }) });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;
  return { origin, url: `${origin}/mcp`, close: () => server.closeAllConnections() ?? server.close() };
}

function metadata(origin, client) {
  return {
    issuer: origin,
    token_endpoint: `${origin}/token`,
    authorization_endpoint: `${origin}/authorize`,
    response_types_supported: ["code"],
    grant_types_supported: ["client_credentials"],
    token_endpoint_auth_methods_supported: client?.publicKey ? ["private_key_jwt"] : ["client_secret_basic"],
    token_endpoint_auth_signing_alg_values_supported: ["ES256"],
  };
}

// Whether a token request comes from the client: by its secret, or by a signature with its key.
function proves({ id, secret, publicKey }, given, authorization = "") {
  if (given.get("grant_type") !== "client_credentials") return false;
  if (secret) return authorization === `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`;
  const [head, claims, signature] = (given.get("client_assertion") ?? "").split(".");
  const isSigned = verify("sha256", Buffer.from(`${head}.${claims}`), { key: publicKey, dsaEncoding: "ieee-p1363" }, Buffer.from(signature ?? "", "base64url"));
  return isSigned && JSON.parse(Buffer.from(claims, "base64url")).iss === id;
}
