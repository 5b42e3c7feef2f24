// A server that requires sign-in, with the authorization server of the TypeScript SDK 1.x.
//
//     protected_typescript.mjs     prints `listening on http://127.0.0.1:PORT/mcp`
//
// Endpoints, client authentication and metadata are those of the SDK; the provider below keeps codes and tokens in
// memory and agrees to everything.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const peers = createRequire(new URL("../../../.interop/peers.js", import.meta.url));
const express = peers("express");
const { mcpAuthRouter, getOAuthProtectedResourceMetadataUrl } = peers("@modelcontextprotocol/sdk/server/auth/router.js");
const { requireBearerAuth } = peers("@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js");
const { InvalidGrantError, InvalidTokenError } = peers("@modelcontextprotocol/sdk/server/auth/errors.js");
const { McpServer } = peers("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = peers("@modelcontextprotocol/sdk/server/streamableHttp.js");

const [clients, codes, tokens, refreshes] = [new Map(), new Map(), new Map(), new Map()];

function issue(client, scopes) {
  const [token, refresh] = [randomUUID(), randomUUID()];
  tokens.set(token, { token, clientId: client.client_id, scopes, expiresAt: Math.floor(Date.now() / 1000) + 3600 });
  refreshes.set(refresh, { client: client.client_id, scopes });
  return { access_token: token, token_type: "bearer", expires_in: 3600, refresh_token: refresh, scope: scopes.join(" ") };
}

const provider = {
  clientsStore: {
    getClient: async (id) => clients.get(id),
    registerClient: async (client) => (clients.set(client.client_id, client), client),
  },
  async authorize(client, params, response) {
    const code = randomUUID();
    codes.set(code, { client: client.client_id, params });
    const back = new URL(params.redirectUri);
    back.search = new URLSearchParams({ code, state: params.state });
    response.redirect(back.href);
  },
  async challengeForAuthorizationCode(client, code) {
    const known = codes.get(code);
    if (known?.client !== client.client_id) throw new InvalidGrantError("unknown code");
    return known.params.codeChallenge;
  },
  async exchangeAuthorizationCode(client, code) {
    const { params } = codes.get(code);
    codes.delete(code);
    return issue(client, params.scopes ?? []);
  },
  async exchangeRefreshToken(client, refresh) {
    const known = refreshes.get(refresh);
    if (known?.client !== client.client_id) throw new InvalidGrantError("unknown refresh token");
    refreshes.delete(refresh);
    return issue(client, known.scopes);
  },
  async verifyAccessToken(token) {
    const known = tokens.get(token);
    if (!known) throw new InvalidTokenError("unknown token");
    return known;
  },
};

const app = express();
const listener = createServer(app).listen(0, "127.0.0.1", () => {
  const origin = `http://127.0.0.1:${listener.address().port}`;
  const server = new URL(`${origin}/mcp`);
  app.use(mcpAuthRouter({ provider, issuerUrl: new URL(origin), resourceServerUrl: server, scopesSupported: ["notes"] }));
  const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(server);
  app.all("/mcp", requireBearerAuth({ verifier: provider, resourceMetadataUrl }), express.json(), async (request, response) => {
    const mcp = new McpServer({ name: "protected-typescript-sdk", version: "1" });
    mcp.registerTool("hello", { description: "Greet the caller." }, async () => ({ content: [{ type: "text", text: "hello" }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await mcp.connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
  console.log(`listening on ${origin}/mcp`);
});
