// The form of an entry of a server: its controls, and how they stand for the keys of the configuration. Keys that have no
// control stay as they are.

import { h } from "./dom.js";
import { CheckControl, EntryFields, folded, getAt, group, PairsControl, RadioControl, RootsControl, SelectControl, setAt, TextControl } from "./fields.js";

const KINDS = { stdio: "stdio", local: "stdio", http: "http", "streamable-http": "http", streamableHttp: "http", streamable_http: "http", sse: "sse", auto: "auto", remote: "auto" };
const ALIASES = { baseUrl: "url", serverUrl: "url", httpUrl: "url", uri: "url", cmd: "command", environment: "env", envs: "env", http_headers: "headers" };
const OF_PROGRAM = ["command", "args", "env", "envFile", "cwd"];
const OF_ADDRESS = ["url", "headers", "allowInsecureHttp", "auth", "oauth"];

const TRANSPORTS = [
  ["stdio", "Program on this computer", "stdio: Toolway starts it"],
  ["http", "Streamable HTTP", "the usual one of remote servers"],
  ["sse", "HTTP+SSE", "of older remote servers"],
  ["auto", "HTTP, detected", "Streamable HTTP first, then HTTP+SSE"],
];
const AUTHENTICATIONS = [
  ["oauth", "OAuth: sign in, where the server requires it"],
  ["none", "None: no credentials are sent"],
  ["bearer", "Bearer token"],
  ["apiKey", "API key in a header"],
  ["basic", "User name and password (basic)"],
  ["clientCredentials", "Client credentials with a secret (no user)"],
  ["privateKey", "Client credentials with a private key (no user)"],
];
const ALGORITHMS = ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"];

// The transport of an entry: a value of the radio buttons.
export function transportOf(entry) {
  if (entry.command !== undefined) return "stdio";
  return KINDS[entry.type] ?? (entry.url === undefined ? "stdio" : "auto");
}

// The authentication of an entry: a value of the list, or another kind, which the form keeps.
export function authenticationOf(entry) {
  const kind = typeof entry.auth === "string" ? entry.auth : entry.auth?.kind ?? "oauth";
  return kind === "clientCredentials" && entry.auth.privateKey !== undefined ? "privateKey" : kind;
}

export class ServerFields extends EntryFields {
  // onchange(): a value was changed; models: names to choose from.
  constructor(onchange, models) {
    super(onchange);
    const text = (path, label, more) => this.text(path, label, more);
    const select = (path, label, choices, more) => this.select(path, label, choices, more);
    const check = (path, label, more = {}) => this.field(path, new CheckControl({ label, onchange, ...more }), more);

    this.name = new TextControl({ label: "Name", help: "Tools are offered to models under this name.", onchange });
    this.transport = new RadioControl({ label: "Transport", choices: TRANSPORTS, ...this.arranged() });
    this.authentication = new SelectControl({ label: "Authentication", choices: AUTHENTICATIONS, ...this.arranged() });

    const isProgram = () => this.transport.value === "stdio";
    const isAddress = () => !isProgram();
    const uses = (...kinds) => () => isAddress() && kinds.includes(this.authentication.value);
    const grants = uses("clientCredentials", "privateKey");
    const tokens = uses("oauth", "clientCredentials", "privateKey");

    const basics = [this.name.node, text("description", "Description")];
    const program = [
      text("command", "Command", { when: isProgram, placeholder: "npx" }),
      text("args", "Arguments", { when: isProgram, kind: "lines", rows: 3, help: "One on each line.", wide: true }),
      this.field("env", new PairsControl({ label: "Environment", add: "Variable", columns: [{ label: "Variable" }, { label: "Value" }], help: "Secrets go to the vault. `${NAME}` is a variable of your own environment.", onchange }), { when: isProgram }),
      text("cwd", "Folder", { when: isProgram, placeholder: "your home folder" }),
    ];
    const address = [
      text("url", "URL", { when: isAddress, placeholder: "https://example.com/mcp", wide: true }),
      this.field("headers", new PairsControl({ label: "Headers", add: "Header", columns: [{ label: "Header" }, { label: "Value" }], onchange }), { when: isAddress }),
      check("allowInsecureHttp", "Allow plain http to another machine", { when: isAddress }),
    ];
    this.authenticationRow = this.authentication.node;
    const credentials = [
      text("auth.token", "Token", { when: uses("bearer"), kind: "password" }),
      text("auth.key", "Key", { when: uses("apiKey"), kind: "password" }),
      text("auth.header", "Header", { when: uses("apiKey"), placeholder: "x-api-key" }),
      text("auth.username", "User name", { when: uses("basic") }),
      text("auth.password", "Password", { when: uses("basic"), kind: "password" }),
      text("oauth.clientId", "Client id", { when: uses("oauth"), placeholder: "registered by itself", help: "Leave it empty where the authorization server registers clients." }),
      text("oauth.clientSecret", "Client secret", { when: uses("oauth"), kind: "password" }),
      text("oauth.scopes", "Scopes", { when: uses("oauth"), kind: "words", placeholder: "as the server asks" }),
      text("auth.clientId", "Client id", { when: grants }),
      text("auth.clientSecret", "Client secret", { when: uses("clientCredentials"), kind: "password" }),
      text("auth.privateKey", "Private key (PEM)", { when: uses("privateKey"), rows: 4, wide: true }),
      select("auth.algorithm", "Signature", [["", "As the key is"], ...ALGORITHMS.map((name) => [name, name])], { when: uses("privateKey") }),
      text("auth.scopes", "Scopes", { when: grants, kind: "words", placeholder: "as the server asks" }),
    ];
    const endpoints = [
      text("oauth.issuer", "Issuer", { when: tokens, placeholder: "discovered" }),
      text("oauth.metadataUrl", "Metadata URL", { when: tokens, placeholder: "discovered" }),
      text("oauth.authorizationUrl", "Authorization endpoint", { when: uses("oauth"), placeholder: "discovered" }),
      text("oauth.tokenUrl", "Token endpoint", { when: tokens, placeholder: "discovered" }),
      text("oauth.redirectUri", "Redirect URI", { when: uses("oauth"), placeholder: "a free port of this computer" }),
      text("oauth.callbackPort", "Callback port", { when: uses("oauth"), kind: "number", placeholder: "any" }),
    ];
    const time = (path, label, placeholder) => text(path, label, { placeholder });
    const names = { kind: "lines", rows: 2, help: "One on each line; `*` matches any text." };
    const use = [
      select("trust", "Trust", [["", "As usual"], ["untrusted", "Not trusted: its hints are not believed"], ["read", "Trusted to read"], ["full", "Trusted to read and change"]]),
      select("sharing", "Processes or connections", [["", "As usual: one for each client"], ["caller", "One for each client"], ["shared", "One for all clients"], ["session", "One for each session of a client"]]),
      text("includeTools", "Offer only these tools", names),
      text("excludeTools", "Do not offer these tools", names),
      text("requireConfirmation", "Always ask before these tools", names),
      check("enabled", "Enabled", { fallback: true }),
      check("lazy", "Connect at the first use, not at the start"),
    ];
    const asks = [
      select("sampling.allow", "It may ask a model (sampling)", [["", "As set for all servers"], ["never", "Never"], ["ask", "You are asked each time"], ["always", "Always"]]),
      select("sampling.model", "With this model", [["", "Chosen for each request"], ...models.map((name) => [name, name])]),
      text("sampling.maxTokens", "Most tokens of an answer", { kind: "number" }),
      check("elicitation", "It may ask you for information", { fallback: true }),
      this.field("roots", new RootsControl({ label: "Roots: folders that it is told to work in", add: "Root", columns: [{ label: "Folder or URI", placeholder: "~/work/notes" }, { label: "Name" }], help: "Advice to the server, not a fence. Those of all servers are told as well.", onchange })),
    ];
    const times = [
      time("timeouts.connect", "Time to connect", "30s"),
      time("timeouts.idle", "A call without progress", "5m"),
      time("timeouts.total", "A call in all", "30m"),
      text("reconnect.attempts", "Retries after a failure", { kind: "number", placeholder: "unlimited" }),
      time("reconnect.initialDelay", "Before the first retry", "1s"),
      time("reconnect.maxDelay", "Longest time between retries", "30s"),
      select("era", "Protocol", [["", "Detected"], ["legacy", "With a session (2025-11-25 and older)"], ["modern", "Stateless (2026-07-28)"]]),
      select("sessions", "Its session, when Toolway ends", [["", "As set for all servers"], ["end", "Ended"], ["keep", "Kept, and resumed"]]),
    ];
    this.groups = [
      group("Server", basics, [this.transport.node]),
      (this.programGroup = group("Program", program)),
      (this.addressGroup = group("Address", address)),
      (this.signInGroup = group("Authentication", [this.authenticationRow], credentials, [(this.endpointGroup = folded("Endpoints, instead of those discovered", endpoints))])),
      folded("Trust, tools and start", use),
      folded("What it may ask for: models, folders, information", asks),
      folded("Times, retries and protocol", times),
    ];
    this.node = h("div.form-groups", this.groups);
    this.set("", {});
  }

  arranged() {
    return { onchange: () => { this.arrange(); this.onchange(); } };
  }

  // Fills the form in.
  set(name, given) {
    const entry = { ...given };
    for (const [alias, own] of Object.entries(ALIASES)) {
      if (entry[alias] !== undefined && entry[own] === undefined) {
        entry[own] = entry[alias];
        delete entry[alias];
      }
    }
    if (Array.isArray(entry.command)) [entry.command, entry.args] = [entry.command[0], [...entry.command.slice(1), ...(entry.args ?? [])]];
    if (entry.disabled === true && entry.enabled === undefined) entry.enabled = false;
    if (entry.disabled !== undefined) delete entry.disabled;
    this.base = entry;
    this.startTransport = transportOf(entry);
    this.startAuthentication = authenticationOf(entry);
    this.name.set(name || undefined);
    this.transport.set(this.startTransport);
    this.authentication.set(this.startAuthentication);
    for (const { path, control } of this.fields) control.set(initial(entry, path));
    this.arrange();
  }

  // Shows the controls that matter.
  arrange() {
    for (const { control, when } of this.fields) control.node.hidden = !when();
    const isProgram = this.transport.value === "stdio";
    this.programGroup.hidden = !isProgram;
    this.addressGroup.hidden = isProgram;
    this.signInGroup.hidden = isProgram;
    this.endpointGroup.hidden = !["oauth", "clientCredentials", "privateKey"].includes(this.authentication.value);
  }

  get signsIn() {
    return this.transport.value !== "stdio" && this.authentication.value === "oauth";
  }

  // The entry as the form says.
  get entry() {
    const entry = structuredClone(this.base);
    const transport = this.transport.value;
    for (const key of transport === "stdio" ? OF_ADDRESS : OF_PROGRAM) delete entry[key];
    if (transport !== this.startTransport) {
      delete entry.type;
      if (transport === "http" || transport === "sse") entry.type = transport;
    }
    if (transport !== "stdio") this.setAuthentication(entry);
    for (const { path, control, when } of this.fields) if (when()) setField(entry, path, control.value);
    return entry;
  }

  setAuthentication(entry) {
    const wanted = this.authentication.value;
    if (wanted !== this.startAuthentication) {
      delete entry.auth;
      if (wanted === "none") entry.auth = "none";
      else if (wanted !== "oauth") entry.auth = { kind: wanted === "privateKey" ? "clientCredentials" : wanted };
      if (!["oauth", "clientCredentials", "privateKey"].includes(wanted)) delete entry.oauth;
    }
  }

  controlOf(path) {
    if (path === "type") return this.transport;
    if (path === "auth" || path === "auth.kind") return this.authentication;
    return super.controlOf(path);
  }
}

// `sampling` may be a flag, and `retries` is another spelling.
function initial(entry, path) {
  if (path === "sampling.allow" && entry.sampling === false) return "never";
  if (path === "reconnect.attempts" && entry.retries !== undefined) return entry.reconnect?.attempts ?? entry.retries;
  return getAt(entry, path);
}

function setField(entry, path, value) {
  if (path.startsWith("sampling.") && typeof entry.sampling === "boolean") {
    if (path === "sampling.allow" && value === "never" && entry.sampling === false) return;
    if (value === undefined && path !== "sampling.allow") return;
    delete entry.sampling;
  }
  if (path === "reconnect.attempts" && entry.retries !== undefined) {
    if (value === entry.retries) return;
    delete entry.retries;
  }
  setAt(entry, path, value);
}
