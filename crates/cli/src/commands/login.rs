//! `toolway login`: signs in to a server.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use serde_json::json;
use toolway_auth::{
    address,
    browser::BrowserError,
    challenge::TokenChallenge,
    credential::{Credential, CredentialKey},
    fetch::{Fetch, FetchError},
    session::Session,
    sign_in_required::{SignInReason, SignInRequired},
    vault::Vault,
};
use toolway_config::{Secret, ServerName};
use toolway_gateway::control::ControlRequest;
use toolway_host::connection::sign_in::{Principal, SignInChange, key_command};
use toolway_host::record::kind;
use toolway_wire::json::Raw;
use url::Url;

use crate::{
    app::App,
    commands::auth,
    exit_code::ExitCode,
    output::{Format, Output, is_interactive},
    report::Report,
    sign_in::{
        Account,
        browser::{SignInMethod, UserBrowser, read_line},
        opener::Openers,
    },
};

/// Sign in to a server
///
/// Opens the browser at the server's authorization server, and stores the tokens in the keychain or in an encrypted file.
/// Without an interactive terminal, prints the URL to open and the command that finishes the sign-in, and exits with
/// code 3.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoginArgs {
    /// The server
    server: String,

    /// Do not open a browser; paste the callback URL from a browser on any machine
    #[arg(long)]
    no_browser: bool,

    /// Wait for the browser even without an interactive terminal
    #[arg(long, conflicts_with = "no_browser")]
    wait: bool,

    /// Finish a sign-in with the URL that the browser was redirected to; `-` reads it from standard input
    #[arg(long, value_name = "URL", value_parser = secret, conflicts_with_all = ["no_browser", "wait"])]
    callback: Option<Secret>,

    /// Sign in for this gateway client, which then uses the server with its own account
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway login tickets
  toolway login tickets --profile work                   A second account
  toolway login tickets --no-browser                     Over ssh, or in a container
  toolway login tickets --callback 'http://127.0.0.1:…'  Finish a sign-in
  toolway login tickets --callback - <address.txt        The same, hidden from the process list
  toolway login tickets --client ada                     For a client of the gateway";

/// Error code of a sign-in that the user has to finish.
const SIGN_IN_NEEDED: &str = "sign_in_needed";

const EMPTY_INPUT: &str = "standard input is empty; pass the URL that the browser was redirected to, on one line";

const NOT_STORED: &str = "credentials cannot be stored, so the sign-in could not be finished later; make the state directory \
writable, or use `--wait`";

pub(crate) async fn run(args: &LoginArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config = app.config_for([args.server.as_str()], output)?;
    let server = crate::target::entry(&config, &args.server)?;
    let principal = app.principal_of(args.client.as_deref())?;
    app.check_client(args.client.as_deref())?;
    let account = app.account(&config, server, &principal)?;
    let finish = || finish_command(&server.name, &principal);
    let signed_in = match &args.callback {
        Some(callback) => app.stop.or(finish_login(&account, callback)).await?,
        None => app
            .stop
            .or(start_login(args, app, account))
            .await?
            .map_err(|needed| login_report(&needed, &finish(), output)),
    };
    let (key, credential, place) = match signed_in {
        Ok(stored) => stored,
        Err(report) => {
            let change = if report.code == SIGN_IN_NEEDED { "started" } else { "failed" };
            let details = json!({ "change": change, "code": report.code, "principal": principal.as_str() });
            app.audit(kind::SIGN_IN, Some(server.name.as_str()), None, &details);
            return Err(report);
        }
    };
    let details = json!({ "change": "signed in", "issuer": key.issuer, "principal": principal.as_str() });
    app.audit(kind::SIGN_IN, Some(server.name.as_str()), None, &details);
    app.notify_gateway(&server.name, args.client.as_deref(), SignInChange::SignedIn, output).await;
    show(&server.name, (&key, &credential), &place, output);
    Ok(ExitCode::Ok)
}

/// A credential and where it is stored.
type StoredCredential = (CredentialKey, Credential, String);

async fn finish_login(account: &Account, callback: &Secret) -> Result<StoredCredential, Report> {
    let sign_in = &account.options.sign_in;
    let callback = match callback.expose() {
        "-" => read_line().await.map_err(|declined| input_failure(&declined))?,
        _ => callback.clone(),
    };
    let finished = sign_in.finish_pending(&callback).await;
    let (key, credential) = finished.map_err(|error| sign_in_failure(&error.reason()))?;
    Ok((key, credential, sign_in.vault.place()))
}

/// The report if the callback URL cannot be read from standard input.
fn input_failure(declined: &BrowserError) -> Report {
    match declined {
        BrowserError::Deferred | BrowserError::Cancelled => Report::usage("arguments", EMPTY_INPUT),
        BrowserError::TimedOut => Report::from_code("timed_out", "no callback URL on standard input in time"),
        BrowserError::Failed(problem) => Report::usage("arguments", problem),
    }
}

async fn start_login(args: &LoginArgs, app: &App, account: Account) -> Result<StoredCredential, Box<LoginFailure>> {
    let Account { mut options, callback_port, redirect, .. } = account;
    let method = match (is_interactive(), args.no_browser, args.wait) {
        (true, true, _) => SignInMethod::PasteCallback,
        (true, false, _) => SignInMethod::OpenBrowser,
        (false, _, true) => SignInMethod::ShowUrl,
        (false, _, false) => SignInMethod::Deferred,
    };
    let openers = Openers::of(&app.environment);
    options.browser = Some(Arc::new(UserBrowser { method, port: callback_port, redirect, openers }));
    let sign_in = options.sign_in.clone();
    let probed = probe(&*sign_in.fetch, &sign_in.server).await;
    // A server without a challenge may still publish its metadata.
    let challenge = probed.as_ref().map(|refusal| refusal.challenge.clone()).unwrap_or_default();
    let signed_in = Session::new(options).sign_in(&challenge).await;
    signed_in.map_err(|needed| Box::new(LoginFailure::of(needed, probed, &*sign_in.vault)))?;
    let kept = sign_in.find().await;
    let failed = |problem: String| Box::new(LoginFailure::Failed(problem));
    let kept = kept.map_err(|error| Box::new(LoginFailure::Vault(error.to_string())))?;
    let (key, credential) = kept.ok_or_else(|| failed("the credential was not stored".to_owned()))?;
    Ok((key, credential, sign_in.vault.place()))
}

/// Why the sign-in did not complete.
enum LoginFailure {
    /// With the start of the response that requires authentication.
    Needed(SignInRequired, String),
    Failed(String),
    Vault(String),
    Unreachable(FetchError),
}

impl LoginFailure {
    fn of(needed: SignInRequired, probed: Result<ProbedServer, FetchError>, vault: &dyn Vault) -> Self {
        match (&needed.reason, probed) {
            (SignInReason::Failed(_), Err(error @ FetchError::Unreachable { .. })) => Self::Unreachable(error),
            (SignInReason::Unavailable(_), Err(error)) if error.may_pass() => Self::Unreachable(error),
            // A vault that stores nothing loses the pending sign-in with this process.
            (SignInReason::Pending, _) if vault.is_ephemeral() => Self::Failed(NOT_STORED.to_owned()),
            (_, probed) => Self::Needed(needed, probed.map(|refusal| refusal.said).unwrap_or_default()),
        }
    }
}

/// How the server answers an unauthenticated client.
#[derive(Default)]
pub(crate) struct ProbedServer {
    pub(crate) challenge: TokenChallenge,
    /// Start of the body of a refusal.
    said: String,
}

/// Remote text is truncated to this many characters.
const MAX_SAID: usize = 300;

/// Sends an unauthenticated request, for the challenge in its answer.
pub(crate) async fn probe(fetch: &dyn Fetch, server: &Url) -> Result<ProbedServer, FetchError> {
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "toolway", "version": env!("CARGO_PKG_VERSION") } } });
    let request = Request::post(server.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .body(Bytes::from(initialize.to_string()));
    let Ok(request) = request else { return Ok(ProbedServer::default()) };
    let reply = fetch.fetch(request).await?;
    let challenges = reply.headers().get_all(header::WWW_AUTHENTICATE).iter();
    let challenge = TokenChallenge::parse(challenges.filter_map(|value| value.to_str().ok()));
    let is_refusal = matches!(reply.status().as_u16(), 401 | 403);
    let body = String::from_utf8_lossy(reply.body());
    let said = if is_refusal { address::sanitize(&body, MAX_SAID) } else { String::new() };
    Ok(ProbedServer { challenge, said })
}

/// The report of a sign-in that is pending or failed; prints a pending one as JSON if that is the format.
fn login_report(failure: &LoginFailure, finish: &str, output: &mut Output) -> Report {
    let (needed, said) = match failure {
        LoginFailure::Needed(needed, said) => (needed, said),
        LoginFailure::Failed(problem) => return unauthorized(problem),
        LoginFailure::Vault(problem) => return Report::vault(problem),
        LoginFailure::Unreachable(error) => {
            return Report::from_code("unreachable", &error.to_string());
        }
    };
    let (SignInReason::Pending, Some(address)) = (&needed.reason, &needed.address) else {
        let mut report = sign_in_failure(&needed.reason);
        if let SignInReason::NoAuthorizationServer(_) = &needed.reason {
            report = report.hint(format!("if it takes a key or a token, run `{}`", key_command(&needed.server)));
        }
        return if said.is_empty() { report } else { report.detail(format!("the server said: {said}")) };
    };
    if output.format != Format::Human {
        let pending = json!({ "server": needed.server, "address": address.expose(), "finish": finish });
        output.json(&Raw::of(&pending));
    }
    let message = format!("sign-in to `{}` started; finish it in a browser", needed.server);
    Report::new(ExitCode::Authorization, SIGN_IN_NEEDED, message)
        .hint(format!("open this URL within ten minutes: {}", address.expose()))
        .hint(format!("then pass the URL that the browser was redirected to: {finish}"))
}

/// The report of a failed sign-in.
pub(crate) fn sign_in_failure(why: &SignInReason) -> Report {
    match why {
        SignInReason::Unavailable(error) => Report::from_code("unreachable", &error.to_string()),
        SignInReason::Vault(problem) => Report::vault(problem),
        why => unauthorized(&why.to_string()),
    }
}

fn unauthorized(problem: &str) -> Report {
    Report::new(ExitCode::Authorization, "unauthorized", problem)
}

/// The command that finishes a sign-in.
fn finish_command(server: &ServerName, principal: &Principal) -> String {
    format!("toolway login {server}{} --callback '<url>'", auth::option_of(principal.as_str()))
}

fn show(server: &ServerName, (key, credential): (&CredentialKey, &Credential), place: &str, output: &mut Output) {
    if output.format == Format::Human {
        output.line(&format!("Signed in to `{server}` at {}; credentials stored in {place}.", key.issuer));
        return;
    }
    let mut view = auth::view(key, credential);
    view["server"] = json!(server.as_str());
    view["vault"] = json!(place);
    output.json(&Raw::of(&view));
}

impl App {
    /// Makes a running gateway reconnect the server, or close the connections of the client that signed in or out. Does
    /// nothing without a gateway.
    pub(crate) async fn notify_gateway(
        &self,
        server: &ServerName,
        client: Option<&str>,
        signing: SignInChange,
        output: &mut Output,
    ) {
        let server = server.to_string();
        let (order, done) = match client {
            None => (ControlRequest::Restart { server }, "reconnects the server"),
            Some(client) => {
                let (client, signed_in) = (client.to_owned(), signing == SignInChange::SignedIn);
                (ControlRequest::Signed { server, client, signed_in }, "is notified")
            }
        };
        match self.ask_gateway(&order).await {
            Ok(Some(answer)) => {
                output.notice(&format!("toolway: the running gateway (PID {}) {done}", answer.process));
            }
            Ok(None) => {}
            Err(report) => output.notice(&format!("toolway: cannot notify the running gateway: {}", report.message)),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a parser of the command line can fail")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}
