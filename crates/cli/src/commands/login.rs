//! `toolway login`: a person signs in to a server.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use serde_json::json;
use toolway_auth::{
    browser::Declined,
    challenge::Demand,
    credential::{Credential, CredentialKey},
    fetch::{Fetch, FetchError},
    needed::{SignInNeeded, Why},
    session::Session,
    vault::Vault,
};
use toolway_config::{Secret, ServerName};
use toolway_gateway::control::Order;
use toolway_host::connection::sign_in::{Principal, Signing};
use toolway_wire::json::Raw;
use url::Url;

use crate::{
    app::App,
    commands::auth,
    exit_code::ExitCode,
    output::{Format, Output, person_present},
    report::{Report, sentence},
    sign_in::{
        Account,
        browser::{Person, Way, line_of_input},
        opener::Openers,
    },
};

/// Sign in to a server
///
/// Opens the browser where the server's authorization server is, and keeps what comes of it in the keychain, or in a sealed
/// file. Where nobody is at a terminal, it says which address to open and which command finishes the sign-in, and ends
/// with exit code 3.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoginArgs {
    /// The server
    server: String,

    /// Open no browser; paste the address that the browser was sent to, from any machine
    #[arg(long)]
    no_browser: bool,

    /// Wait for the browser even if nobody is at a terminal
    #[arg(long, conflicts_with = "no_browser")]
    wait: bool,

    /// Finish a sign-in with the address that the browser was sent to; `-` reads it from standard input
    #[arg(long, value_name = "ADDRESS", value_parser = secret, conflicts_with_all = ["no_browser", "wait"])]
    callback: Option<Secret>,

    /// Sign in for this client of the gateway, which then uses the server on its own behalf
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway login tickets
  toolway login tickets --profile work                   A second account
  toolway login tickets --no-browser                     Over ssh, or in a container
  toolway login tickets --callback 'http://127.0.0.1:…'  Finish what was begun elsewhere
  toolway login tickets --callback - <address.txt        The same, with nothing to see among the processes
  toolway login tickets --client ada                     For a client of the gateway";

const NOTHING_READ: &str = "Standard input has no address: give the one that the browser was sent to, on one line.";

const FORGOTTEN: &str = "nothing can be kept here, so that nobody could finish the sign-in later; let the state directory be \
                         written, or use `--wait`";

pub(crate) async fn run(args: &LoginArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config = app.config_for([args.server.as_str()], output)?;
    let server = crate::target::entry(&config, &args.server)?;
    let principal = app.principal_of(args.client.as_deref())?;
    app.check_client(args.client.as_deref())?;
    let account = app.account(&config, server, &principal)?;
    let finish = || finishing(&server.name, &principal);
    let signed_in = match &args.callback {
        Some(callback) => app.stop.or(finished(&account, callback)).await?,
        None => app.stop.or(signed_in(args, app, account)).await?.map_err(|needed| waiting(&needed, &finish(), output)),
    };
    let (key, credential, place) = signed_in?;
    app.tell_gateway_of(&server.name, args.client.as_deref(), Signing::In, output).await;
    show(&server.name, (&key, &credential), &place, output);
    Ok(ExitCode::Ok)
}

/// What is kept, and where.
type Kept = (CredentialKey, Credential, String);

async fn finished(account: &Account, callback: &Secret) -> Result<Kept, Report> {
    let sign_in = &account.options.sign_in;
    let callback = match callback.expose() {
        "-" => line_of_input().await.map_err(|declined| unread(&declined))?,
        _ => callback.clone(),
    };
    let finished = sign_in.finish_waiting(&callback).await;
    let (key, credential) = finished.map_err(|error| came_to_nothing(&error.why()))?;
    Ok((key, credential, sign_in.vault.place()))
}

/// Why there is no address on standard input.
fn unread(declined: &Declined) -> Report {
    match declined {
        Declined::Later | Declined::Refused => Report::usage("arguments", NOTHING_READ),
        Declined::TimedOut => Report::of_code("timed_out", "no address came from standard input in time"),
        Declined::Failed(problem) => Report::usage("arguments", sentence(problem)),
    }
}

async fn signed_in(args: &LoginArgs, app: &App, account: Account) -> Result<Kept, Box<Unsigned>> {
    let Account { mut options, callback_port, .. } = account;
    let way = match (person_present(), args.no_browser, args.wait) {
        (true, true, _) => Way::Pasted,
        (true, false, _) => Way::Opened,
        (false, _, true) => Way::Shown,
        (false, _, false) => Way::Later,
    };
    options.browser = Some(Arc::new(Person { way, port: callback_port, openers: Openers::of(&app.environment) }));
    let sign_in = options.sign_in.clone();
    let heard = demand(&*sign_in.fetch, &sign_in.server).await;
    // One that says nothing may still say it elsewhere.
    let signed_in = Session::new(options).sign_in(heard.as_ref().unwrap_or(&Demand::default())).await;
    signed_in.map_err(|needed| Box::new(Unsigned::of(needed, heard.err(), &*sign_in.vault)))?;
    let kept = sign_in.find().await;
    let failed = |problem: String| Box::new(Unsigned::Failed(problem));
    let kept = kept.map_err(|error| Box::new(Unsigned::Vault(error.to_string())))?;
    let (key, credential) = kept.ok_or_else(|| failed("what came of it was not kept".to_owned()))?;
    Ok((key, credential, sign_in.vault.place()))
}

/// Why nobody is signed in.
enum Unsigned {
    Needed(SignInNeeded),
    Failed(String),
    Vault(String),
    Unreachable(FetchError),
}

impl Unsigned {
    fn of(needed: SignInNeeded, silent: Option<FetchError>, vault: &dyn Vault) -> Self {
        match (&needed.why, silent) {
            (Why::Failed(_), Some(error @ FetchError::Unreachable { .. })) => Self::Unreachable(error),
            (Why::Unanswered(_), Some(error)) if error.may_pass() => Self::Unreachable(error),
            // Where nothing can be kept, the sign-in that has begun is forgotten with this process.
            (Why::Begun, _) if vault.forgets() => Self::Failed(FORGOTTEN.to_owned()),
            _ => Self::Needed(needed),
        }
    }
}

/// What the server says to somebody it does not know.
async fn demand(fetch: &dyn Fetch, server: &Url) -> Result<Demand, FetchError> {
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "toolway", "version": env!("CARGO_PKG_VERSION") } } });
    let request = Request::post(server.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .body(Bytes::from(greeting.to_string()));
    let Ok(request) = request else { return Ok(Demand::default()) };
    let reply = fetch.fetch(request).await?;
    let challenges = reply.headers().get_all(header::WWW_AUTHENTICATE).iter();
    Ok(Demand::read(challenges.filter_map(|value| value.to_str().ok())))
}

/// A sign-in that somebody has to finish, or that came to nothing.
fn waiting(why_not: &Unsigned, finish: &str, output: &mut Output) -> Report {
    let needed = match why_not {
        Unsigned::Needed(needed) => needed,
        Unsigned::Failed(problem) => return unsigned(problem),
        Unsigned::Vault(problem) => return Report::vault(problem),
        Unsigned::Unreachable(error) => {
            return Report::of_code("unreachable", &error.to_string());
        }
    };
    let (Why::Begun, Some(address)) = (&needed.why, &needed.address) else {
        return came_to_nothing(&needed.why);
    };
    if output.format != Format::Human {
        let pending = json!({ "server": needed.server, "address": address.expose(), "finish": finish });
        output.json(&Raw::of(&pending));
    }
    let message = format!("A sign-in to `{}` has begun; nobody is at a terminal to finish it.", needed.server);
    Report::new(ExitCode::Authorization, "sign_in_needed", message)
        .hint(format!("Open this address within ten minutes: {}", address.expose()))
        .hint(format!("Then give back the address that the browser was sent to: {finish}"))
}

/// A sign-in that came to nothing.
fn came_to_nothing(why: &Why) -> Report {
    match why {
        Why::Unanswered(error) => Report::of_code("unreachable", &error.to_string()),
        Why::Vault(problem) => Report::vault(problem),
        why => unsigned(&why.to_string()),
    }
}

fn unsigned(problem: &str) -> Report {
    Report::new(ExitCode::Authorization, "unauthorized", sentence(problem))
}

/// The command that finishes a sign-in.
fn finishing(server: &ServerName, principal: &Principal) -> String {
    format!("toolway login {server}{} --callback '<address>'", auth::option_of(principal.as_str()))
}

fn show(server: &ServerName, (key, credential): (&CredentialKey, &Credential), place: &str, output: &mut Output) {
    if output.format == Format::Human {
        output.line(&format!("Signed in to `{server}` at {}; kept in {place}.", key.issuer));
        return;
    }
    let mut view = auth::view(key, credential);
    view["server"] = json!(server.as_str());
    view["vault"] = json!(place);
    output.json(&Raw::of(&view));
}

impl App {
    /// A gateway that runs connects the server anew, or ends what it has open for the client that signed in or out; without
    /// one there is nobody to tell.
    pub(crate) async fn tell_gateway_of(
        &self,
        server: &ServerName,
        client: Option<&str>,
        signing: Signing,
        output: &mut Output,
    ) {
        let server = server.to_string();
        let (order, done) = match client {
            None => (Order::Restart { server }, "connects it anew"),
            Some(client) => {
                let (client, signed_in) = (client.to_owned(), signing == Signing::In);
                (Order::Signed { server, client, signed_in }, "knows of it")
            }
        };
        match self.ask_gateway(&order).await {
            Ok(Some(answer)) => {
                output.say(&format!("toolway: the gateway that runs (process {}) {done}.", answer.process));
            }
            Ok(None) => {}
            Err(report) => output.say(&format!("toolway: the gateway that runs was not told: {}", report.message)),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a parser of the command line can fail")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}
