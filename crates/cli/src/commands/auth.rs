//! `toolway auth`: who is signed in to what, and how authorization servers know us.

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
    /// How people sign in to it, where they do.
    sign_in: Option<SignIn>,
    /// Why that is not known.
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
        let opened = |(key, kept): (CredentialKey, Secret)| Some((Credential::open(&kept, &key).ok()?, key));
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
            (None, None, _) => output.entry(name, &format!("  {}, as it is configured", row.kind)),
            (None, Some(_), []) => output.entry(name, "  nobody has signed in"),
            (None, Some(_), kept) => kept.iter().for_each(|(key, credential)| {
                output.entry(name, &format!("  {}", for_people(key, credential, row.state(key, credential))));
            }),
        }
    }
    if let Some(place) = place {
        output.line(&format!("Kept in {place}."));
    }
}

impl<'a> Row<'a> {
    /// None for a program.
    fn of(app: &App, config: &Config, server: &'a ServerConfig) -> Option<Self> {
        let row = |kind, sign_in, problem| Some(Self { server, kind, sign_in, problem, kept: Vec::new() });
        let kind = match &server.transport {
            Transport::Http(http) => http.auth.as_deref().map_or("oauth", Auth::kind),
            Transport::Process(_) => return None,
        };
        let endpoint = match server.endpoint(&app.environment, &*app.keychain()) {
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

    /// Takes what is this server's.
    fn fill(&mut self, kept: &[(Credential, CredentialKey)]) {
        let Some(sign_in) = &self.sign_in else { return };
        let identity = sign_in.identity();
        let ours = kept.iter().filter(|(credential, _)| credential.server == identity && credential.is_of_a_person());
        self.kept = ours.map(|(credential, key)| (key.clone(), credential.clone())).collect();
    }

    /// Whether somebody is signed in with it, as the server is configured now.
    fn state(&self, key: &CredentialKey, credential: &Credential) -> &'static str {
        match &self.sign_in {
            Some(sign_in) if !sign_in.uses(key, credential) => "sign-in needed",
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

fn for_people(key: &CredentialKey, credential: &Credential, state: &str) -> String {
    let mut text = match whose(&key.principal) {
        (None, None) => String::new(),
        (Some(profile), _) => format!("profile `{profile}`: "),
        (None, Some(client)) => format!("client `{client}`: "),
    };
    text.push_str(&format!("{state} at {}", key.issuer));
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
        Transport::Http(http) => http.oauth.callback_port,
        Transport::Process(_) => None,
    });
    let mut ports: Vec<u16> = ports.collect();
    ports.sort_unstable();
    ports.dedup();
    ports.into_iter()
}
