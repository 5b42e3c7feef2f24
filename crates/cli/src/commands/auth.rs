//! `toolway auth`: who is signed in to what, and how authorization servers know us.

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_auth::{
    address,
    callback::PATH,
    credential::{Credential, CredentialKey, TokenKind, now},
    registration::{CLIENT_NAME, client_document},
    vault::{Vault, VaultError},
};
use toolway_config::{Config, Endpoint, ServerConfig, server::auth::Auth};
use toolway_wire::json::Raw;
use url::Url;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Show who is signed in to which server, and what authorization servers are told about this program
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Show who is signed in: as whom, by whom, for what, until when, and where it is kept
    Status {
        /// The server; all that people sign in to where nothing is said
        server: Option<String>,
    },
    /// Print the document that describes this program to authorization servers
    ///
    /// Host it at the https address that `signIn.clientMetadataUrl` of the configuration says. Authorization servers that
    /// know clients by such a document then need no registration.
    ClientMetadata,
}

const EXAMPLES: &str = "\
Examples:
  toolway auth status
  toolway auth status tickets -o json
  toolway auth client-metadata > client.json";

pub(crate) async fn run(args: &AuthArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        AuthCommand::Status { server } => status(server.as_deref(), app, output).await,
        AuthCommand::ClientMetadata => client_metadata(app, output),
    }
}

/// One server, how it is told who asks, and who has signed in to it.
struct Row<'a> {
    server: &'a ServerConfig,
    kind: &'static str,
    kept: Vec<(CredentialKey, Credential)>,
}

async fn status(named: Option<&str>, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config = app.config(output)?;
    let servers: Vec<&ServerConfig> = match named {
        Some(name) => vec![crate::target::entry(&config, name)?],
        None => config.servers.values().filter(|server| server.is_enabled()).collect(),
    };
    let vault = app.vault(&config.settings);
    let mut rows = Vec::new();
    for server in servers {
        rows.extend(app.stop.or(row(app, server, &*vault)).await?.map_err(|error| Report::vault(&error))?);
    }
    show(&rows, &vault.place(), output);
    Ok(ExitCode::Ok)
}

/// None for a program, and for an address whose references lead nowhere.
async fn row<'a>(app: &App, server: &'a ServerConfig, vault: &dyn Vault) -> Result<Option<Row<'a>>, VaultError> {
    let endpoint = server.endpoint(&app.environment, &*app.keychain());
    let Ok(Endpoint::Http { url, sign_in, .. }) = endpoint else { return Ok(None) };
    let Ok(url) = Url::parse(url.expose()) else { return Ok(None) };
    let mut row = Row { server, kind: sign_in.auth.kind(), kept: Vec::new() };
    if !matches!(sign_in.auth, Auth::OAuth { .. }) {
        return Ok(Some(row));
    }
    let identity = address::identity(&url);
    for key in vault.keys().await?.into_iter().filter(|key| !key.is_pending()) {
        let kept = vault.load(&key).await?.and_then(|kept| Credential::open(&kept, &key).ok());
        row.kept.extend(kept.filter(|credential| credential.server == identity).map(|credential| (key, credential)));
    }
    Ok(Some(row))
}

fn show(rows: &[Row<'_>], place: &str, output: &mut Output) {
    if output.format != Format::Human {
        let servers: Vec<Value> = rows.iter().map(Row::view).collect();
        output.json(&Raw::of(&json!({ "servers": servers, "vault": place })));
        return;
    }
    for row in rows {
        let name = &row.server.name;
        match (row.kind, row.kept.as_slice()) {
            ("oauth", []) => output.entry(name.as_str(), "  nobody has signed in"),
            ("oauth", kept) => kept.iter().for_each(|(key, credential)| {
                output.entry(name.as_str(), &format!("  {}", for_people(key, credential)));
            }),
            (kind, _) => output.entry(name.as_str(), &format!("  {kind}, as it is configured")),
        }
    }
    output.line(&format!("Kept in {place}."));
}

impl Row<'_> {
    fn view(&self) -> Value {
        let kept: Vec<Value> = self.kept.iter().map(|(key, credential)| view(key, credential)).collect();
        json!({ "server": self.server.name.as_str(), "kind": self.kind, "signIns": kept })
    }
}

/// A sign-in as programs read it. Nothing of it can be used to sign in.
pub(crate) fn view(key: &CredentialKey, credential: &Credential) -> Value {
    let tokens = credential.tokens.as_ref();
    let scopes = tokens.map(|tokens| tokens.granted.as_ref().unwrap_or(&tokens.requested));
    let (profile, client) = whose(&key.principal);
    json!({
        "profile": profile,
        "client": client,
        "issuer": key.issuer,
        "clientId": key.client,
        "resource": key.resource,
        "scopes": scopes.map(|scopes| scopes.names().collect::<Vec<_>>()).unwrap_or_default(),
        "expiresAt": tokens.and_then(|tokens| tokens.ends),
        "renewable": tokens.is_some_and(|tokens| tokens.refresh.is_some()),
        "bound": tokens.is_some_and(|tokens| tokens.kind == TokenKind::DPoP),
        "state": state(credential),
    })
}

fn state(credential: &Credential) -> &'static str {
    match &credential.tokens {
        None => "sign-in needed",
        Some(tokens) if tokens.has_ended(now()) && tokens.refresh.is_none() => "sign-in needed",
        Some(_) => "signed in",
    }
}

fn for_people(key: &CredentialKey, credential: &Credential) -> String {
    let mut text = match whose(&key.principal) {
        (None, None) => String::new(),
        (Some(profile), _) => format!("profile `{profile}`: "),
        (None, Some(client)) => format!("client `{client}`: "),
    };
    text.push_str(&format!("{} at {}", state(credential), key.issuer));
    if let Some(tokens) = &credential.tokens {
        let scopes = tokens.granted.as_ref().unwrap_or(&tokens.requested);
        if !scopes.is_empty() {
            text.push_str(&format!(", for {scopes}"));
        }
        text.push_str(&match (tokens.ends, tokens.refresh.is_some()) {
            (Some(ends), true) => format!(", renewed in {}", lasting(ends)),
            (Some(ends), false) => format!(", ends in {}", lasting(ends)),
            (None, _) => String::new(),
        });
    }
    text
}

fn lasting(ends: u64) -> String {
    let minutes = ends.saturating_sub(now()).div_ceil(60);
    if minutes < 120 { format!("{minutes} min") } else { format!("{} h", minutes / 60) }
}

/// The profile or the client of a principal.
fn whose(principal: &str) -> (Option<&str>, Option<&str>) {
    match principal.split_once('/') {
        Some(("local", profile)) => (Some(profile), None),
        Some((_, client)) => (None, Some(client)),
        None => (None, None),
    }
}

/// The option that means this principal.
pub(crate) fn option_of(principal: &str) -> String {
    match whose(principal) {
        (Some(profile), _) => format!(" --profile {profile}"),
        (None, Some(client)) => format!(" --client {client}"),
        (None, None) => String::new(),
    }
}

fn client_metadata(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config: Config = app.config(output)?;
    let url = config.settings.sign_in.client_metadata_url.value.as_deref().and_then(|url| Url::parse(url).ok());
    let url = url.ok_or_else(|| {
        let message = "The configuration does not say where the document will be.";
        Report::usage("config", message).hint("Set `\"signIn\": {\"clientMetadataUrl\": \"https://…\"}` first.")
    })?;
    // Authorization servers take any port of this machine for an address without one.
    let mut redirects = vec![format!("http://127.0.0.1{PATH}")];
    redirects.extend(ports(&config).map(|port| format!("http://127.0.0.1:{port}{PATH}")));
    let redirects: Vec<&str> = redirects.iter().map(String::as_str).collect();
    let document = client_document(&url, CLIENT_NAME, &redirects);
    output.content(format!("{document:#}\n").as_bytes());
    Ok(ExitCode::Ok)
}

/// The ports that entries fix.
fn ports(config: &Config) -> impl Iterator<Item = u16> {
    let ports = config.servers.values().filter_map(|server| match &server.transport {
        toolway_config::server::Transport::Http(http) => http.oauth.callback_port,
        toolway_config::server::Transport::Process(_) => None,
    });
    let mut ports: Vec<u16> = ports.collect();
    ports.sort_unstable();
    ports.dedup();
    ports.into_iter()
}
