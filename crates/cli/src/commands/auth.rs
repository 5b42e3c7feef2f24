//! `toolway auth`: shows sign-ins and the OAuth client metadata document.

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_auth::{
    callback::PATH,
    credential::{Credential, CredentialKey, TokenKind, now},
    registration::{CLIENT_NAME, client_document},
    sign_in::SignIn,
};
use toolway_config::{
    Config, Endpoint, Secret, ServerConfig,
    server::{Transport, auth::Auth},
};
use toolway_wire::json::Raw;
use url::Url;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Show sign-ins, and print the OAuth client metadata
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Show the sign-in state of each server: issuer, scopes, expiry, and where credentials are stored
    Status {
        /// The server [default: all HTTP servers]
        server: Option<String>,
    },
    /// Print the OAuth client ID metadata document
    ///
    /// Host it at the https URL in `signIn.clientMetadataUrl` of the configuration. Authorization servers that support such
    /// documents then need no client registration.
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

/// One server, its authentication kind, and its sign-ins.
struct Row<'a> {
    server: &'a ServerConfig,
    kind: &'static str,
    /// Sign-in options; `None` if it does not use a sign-in.
    sign_in: Option<SignIn>,
    /// Why the sign-in options are unknown.
    problem: Option<String>,
    kept: Vec<(CredentialKey, Credential)>,
}

async fn status(named: Option<&str>, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config = app.config(output)?;
    let servers: Vec<&ServerConfig> = match named {
        Some(name) => vec![crate::target::entry(&config, name)?],
        None => config.servers.values().filter(|server| server.is_enabled()).collect(),
    };
    let mut rows: Vec<Row<'_>> = servers.into_iter().filter_map(|server| Row::of(app, &config, server)).collect();
    let vault = app.vault(&config.settings);
    let asked = rows.iter().any(|row| row.sign_in.is_some());
    if asked {
        let kept = app.stop.or(vault.all()).await?.map_err(|error| Report::vault(&error))?;
        let opened = |(key, kept): (CredentialKey, Secret)| Some((Credential::from_stored(&kept, &key).ok()?, key));
        let kept: Vec<_> = kept.into_iter().filter(|(key, _)| !key.is_pending()).filter_map(opened).collect();
        rows.iter_mut().for_each(|row| row.fill(&kept));
    }
    show(&rows, asked.then(|| vault.place()).as_deref(), output);
    Ok(ExitCode::Ok)
}

fn show(rows: &[Row<'_>], place: Option<&str>, output: &mut Output) {
    if output.format != Format::Human {
        let servers: Vec<Value> = rows.iter().map(Row::view).collect();
        output.json(&Raw::of(&json!({ "servers": servers, "vault": place })));
        return;
    }
    for row in rows {
        let name = row.server.name.as_str();
        match (&row.problem, &row.sign_in, row.kept.as_slice()) {
            (Some(problem), _, _) => output.entry(name, &format!("  {problem}")),
            (None, None, _) => output.entry(name, &format!("  {} (from the configuration)", row.kind)),
            (None, Some(_), []) => output.entry(name, "  not signed in"),
            (None, Some(_), kept) => kept.iter().for_each(|(key, credential)| {
                output.entry(name, &format!("  {}", describe(key, credential, row.state(key, credential))));
            }),
        }
    }
    if let Some(place) = place {
        output.line(&format!("Credentials are stored in {place}."));
    }
}

impl<'a> Row<'a> {
    /// `None` for a stdio server.
    fn of(app: &App, config: &Config, server: &'a ServerConfig) -> Option<Self> {
        let row = |kind, sign_in, problem| Some(Self { server, kind, sign_in, problem, kept: Vec::new() });
        let kind = match &server.transport {
            Transport::Http(http) => http.auth.as_deref().map_or("oauth", Auth::kind),
            Transport::Process(_) => return None,
        };
        let endpoint = match server.endpoint(&app.environment, &*app.keychain(&config.settings)) {
            Ok(endpoint) => endpoint,
            Err(error) => return row(kind, None, Some(error.to_string())),
        };
        let Endpoint::Http { sign_in, .. } = &endpoint else { return None };
        if !matches!(sign_in.auth, Auth::OAuth { .. }) {
            return row(sign_in.auth.kind(), None, None);
        }
        match app.account(config, server, &app.principal()) {
            Ok(account) => row("oauth", Some(account.options.sign_in), None),
            Err(report) => row("oauth", None, Some(report.message)),
        }
    }

    /// Takes the credentials of this server.
    fn fill(&mut self, kept: &[(Credential, CredentialKey)]) {
        let Some(sign_in) = &self.sign_in else { return };
        let identity = sign_in.identity();
        let ours = kept.iter().filter(|(credential, _)| credential.server == identity && credential.is_interactive());
        self.kept = ours.map(|(credential, key)| (key.clone(), credential.clone())).collect();
    }

    /// The sign-in state with the current configuration of the server.
    fn state(&self, key: &CredentialKey, credential: &Credential) -> &'static str {
        match &self.sign_in {
            Some(sign_in) if !sign_in.uses(key, credential) => "sign-in-required",
            _ => state(credential),
        }
    }
}

impl Row<'_> {
    fn view(&self) -> Value {
        let sign_in = |(key, credential): &(CredentialKey, Credential)| {
            let mut view = view(key, credential);
            view["state"] = json!(self.state(key, credential));
            view
        };
        let kept: Vec<Value> = self.kept.iter().map(sign_in).collect();
        let mut view = json!({ "server": self.server.name.as_str(), "kind": self.kind, "signIns": kept });
        if let Some(problem) = &self.problem {
            view["problem"] = json!(problem);
        }
        view
    }
}

/// A sign-in as JSON, without tokens.
pub(crate) fn view(key: &CredentialKey, credential: &Credential) -> Value {
    let tokens = credential.tokens.as_ref();
    let scopes = tokens.map(|tokens| tokens.granted.as_ref().unwrap_or(&tokens.requested));
    let (profile, client) = profile_and_client(&key.principal);
    json!({
        "profile": profile,
        "client": client,
        "issuer": key.issuer,
        "clientId": key.client,
        "resource": key.resource,
        "scopes": scopes.map(|scopes| scopes.names().collect::<Vec<_>>()).unwrap_or_default(),
        "expiresAt": tokens.and_then(|tokens| tokens.expires_at),
        "renewable": tokens.is_some_and(|tokens| tokens.refresh.is_some()),
        "bound": tokens.is_some_and(|tokens| tokens.kind == TokenKind::DPoP),
        "state": state(credential),
    })
}

fn state(credential: &Credential) -> &'static str {
    match &credential.tokens {
        None => "sign-in-required",
        Some(tokens) if tokens.is_expired(now()) && tokens.refresh.is_none() => "sign-in-required",
        Some(_) => "signed in",
    }
}

fn describe(key: &CredentialKey, credential: &Credential, state: &str) -> String {
    let mut text = match profile_and_client(&key.principal) {
        (None, None) => String::new(),
        (Some(profile), _) => format!("profile `{profile}`: "),
        (None, Some(client)) => format!("client `{client}`: "),
    };
    text.push_str(&format!("{state} at {}", key.issuer));
    if let Some(tokens) = &credential.tokens {
        let scopes = tokens.granted.as_ref().unwrap_or(&tokens.requested);
        if !scopes.is_empty() {
            text.push_str(&format!(", scopes {scopes}"));
        }
        text.push_str(&match (tokens.expires_at, tokens.refresh.is_some()) {
            (Some(ends), true) => format!(", refreshed in {}", time_left(ends)),
            (Some(ends), false) => format!(", expires in {}", time_left(ends)),
            (None, _) => String::new(),
        });
    }
    text
}

fn time_left(ends: u64) -> String {
    let minutes = ends.saturating_sub(now()).div_ceil(60);
    if minutes < 120 { format!("{minutes} min") } else { format!("{} h", minutes / 60) }
}

/// The profile or the client of a principal.
fn profile_and_client(principal: &str) -> (Option<&str>, Option<&str>) {
    match principal.split_once('/') {
        Some(("local", profile)) => (Some(profile), None),
        Some((_, client)) => (None, Some(client)),
        None => (None, None),
    }
}

/// The command-line option that selects this principal.
pub(crate) fn option_of(principal: &str) -> String {
    match profile_and_client(principal) {
        (Some(profile), _) => format!(" --profile {profile}"),
        (None, Some(client)) => format!(" --client {client}"),
        (None, None) => String::new(),
    }
}

fn client_metadata(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config: Config = app.config(output)?;
    let url = config.settings.sign_in.client_metadata_url.value.as_deref().and_then(|url| Url::parse(url).ok());
    let url = url.ok_or_else(|| {
        let message = "`signIn.clientMetadataUrl` is not configured";
        Report::usage("config", message).hint("set `\"signIn\": {\"clientMetadataUrl\": \"https://…\"}` first")
    })?;
    // Authorization servers accept any loopback port for a redirect URI without one.
    let mut redirects = vec![format!("http://127.0.0.1{PATH}")];
    redirects.extend(ports(&config).map(|port| format!("http://127.0.0.1:{port}{PATH}")));
    let redirects: Vec<&str> = redirects.iter().map(String::as_str).collect();
    let document = client_document(&url, CLIENT_NAME, &redirects);
    output.content(format!("{document:#}\n").as_bytes());
    Ok(ExitCode::Ok)
}

/// The callback ports that entries fix.
fn ports(config: &Config) -> impl Iterator<Item = u16> {
    let ports = config.servers.values().filter_map(|server| match &server.transport {
        Transport::Http(http) => http.oauth.callback_port,
        Transport::Process(_) => None,
    });
    let mut ports: Vec<u16> = ports.collect();
    ports.sort_unstable();
    ports.dedup();
    ports.into_iter()
}
