//! `toolway secret`: secrets that configuration refers to as `${secret:NAME}`.

use std::time::SystemTime;

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_config::{Loaded, Secret, SecretName, looks_like_key, secret_uses::SecretUse};
use toolway_host::{record::kind, time};
use toolway_vault::{SecretError, secrets::Removed};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    commands::servers::change,
    exit_code::ExitCode,
    output::{Format, Output, is_interactive},
    report::Report,
    terminal::hidden_line::{self, HiddenLine},
};

/// Store, list, move and remove secrets that configuration refers to as `${secret:NAME}`
///
/// A secret is kept in the keychain of the operating system, or in an encrypted file (`signIn.vault`), and never in a
/// configuration file. It is read when a server is connected or a model is used. `servers add`, `import --copy` and the
/// console store the secrets of a pasted entry in the same way.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    command: SecretCommand,
}

#[derive(Debug, Subcommand)]
enum SecretCommand {
    /// Store a secret; a prompt asks for its value, or it is read from standard input
    ///
    /// The last line break of standard input is not part of the value. A secret of this name is replaced. A connected server
    /// gets the new value when it is connected again.
    Set {
        /// Name; letters, digits, `_`, `-` and `.`
        name: String,

        /// Refused: an argument is visible to other users of this machine
        #[arg(hide = true, value_parser = hidden)]
        value: Option<Secret>,
    },
    /// List the names of the secrets, when each was stored, and where it is used; never values
    List,
    /// Move the secrets in clear of a server's entry to the vault
    ///
    /// The file gets references in their place. `toolway doctor` finds such entries.
    Move {
        /// The server
        server: String,
    },
    /// Remove a secret, and say which entries still refer to it
    Remove {
        /// The secret
        name: String,
    },
}

const EXAMPLES: &str = "\
Examples:
  toolway secret set github-token                     Asks for the value
  pass show github | toolway secret set github-token
  toolway servers add github --stdio github-server --env 'GITHUB_TOKEN=${secret:github-token}'
  toolway secret list";

/// Maximum size of a secret in bytes.
const MAX_SECRET: usize = 64 * 1024;

pub(crate) async fn run(args: &SecretArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    match &args.command {
        SecretCommand::Set { name, value } => {
            let name = new_name(name)?;
            if value.is_some() {
                return Err(Report::usage(
                    "arguments",
                    "the value of a secret cannot be an argument: other users see it",
                )
                .hint(
                    "type it at the prompt, or give it on standard input; the shell may have kept it in its history",
                ));
            }
            let value = read_value(&name, app).await?;
            set(&name, &value, &loaded, app, output)
        }
        SecretCommand::List => list(&loaded, app, output),
        SecretCommand::Move { server } => change::move_secrets(server, app, output),
        SecretCommand::Remove { name } => remove(&parse_name(name)?, &loaded, app, output),
    }
}

fn hidden(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

fn parse_name(text: &str) -> Result<SecretName, Report> {
    text.parse().map_err(|error: toolway_config::secret::InvalidSecretName| Report::usage("secret", error.to_string()))
}

/// A name for a secret. A key in its place would be printed and listed.
fn new_name(text: &str) -> Result<SecretName, Report> {
    if looks_like_key(text) {
        return Err(Report::usage("secret", "the name looks like a secret itself")
            .hint("give a name, e.g. `toolway secret set github-token`; the prompt asks for the value"));
    }
    parse_name(text)
}

/// The value: typed at a hidden prompt, or from standard input.
async fn read_value(name: &SecretName, app: &App) -> Result<Secret, Report> {
    let text = if is_interactive() {
        let prompt = format!("Value of `{name}` (hidden): ");
        let typed = tokio::task::spawn_blocking(move || hidden_line::read(&prompt)).await;
        let failed = |problem: String| Report::usage("secret", format!("the value cannot be read: {problem}"));
        match typed.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))? {
            HiddenLine::Text(text) => text,
            HiddenLine::Left => return Err(Report::interrupted()),
            HiddenLine::SeveralLines => {
                let hint = format!("give it on standard input: `toolway secret set {name} < FILE`");
                return Err(Report::usage("secret", "a value of several lines cannot be typed").hint(hint));
            }
        }
    } else {
        let text = String::from_utf8(app.stdin(true).await?);
        let mut text = text.map_err(|_| Report::usage("secret", "the value is not valid UTF-8"))?;
        if text.ends_with('\n') {
            text.truncate(text.len() - 1);
            text.truncate(text.trim_end_matches('\r').len());
        }
        text
    };
    match text.len() {
        0 => Err(Report::usage("secret", format!("no value given; `{name}` was not changed"))
            .hint("give it on standard input, or run the command at a terminal, which asks for it")),
        1..=MAX_SECRET => Ok(Secret::new(text)),
        _ => Err(Report::usage(
            "secret",
            format!("the value is larger than {MAX_SECRET} bytes; `{name}` was not changed"),
        )),
    }
}

fn set(name: &SecretName, value: &Secret, loaded: &Loaded, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let secrets = app.secrets(&loaded.config.settings);
    let is_new = !secrets.list().map_err(|error| failed(&error))?.iter().any(|known| known.name == *name);
    secrets.set(name, value).map_err(|error| failed(&error))?;
    let change = if is_new { "stored" } else { "replaced" };
    app.audit(kind::SECRET, None, Some(name.as_str()), &json!({ "change": change }));
    let uses = uses_of(name, loaded);
    if output.format != Format::Human {
        output.json(&Raw::of(
            &json!({ "name": name.as_str(), "change": change, "vault": secrets.place(), "usedBy": views(&uses) }),
        ));
        return Ok(ExitCode::Ok);
    }
    let verb = if is_new { "Stored" } else { "Replaced" };
    output.line(&format!("{verb} `{name}` in {}; refer to it as `{}`.", secrets.place(), name.reference()));
    uses.iter().for_each(|used| output.line(&format!("  used by {} ({})", used.key, used.place)));
    Ok(ExitCode::Ok)
}

/// One row of the list.
struct Row {
    name: SecretName,
    /// `None` if an entry refers to it and it is not stored.
    set_at: Option<SystemTime>,
    uses: Vec<SecretUse>,
}

fn list(loaded: &Loaded, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let secrets = app.secrets(&loaded.config.settings);
    let stored = secrets.list().map_err(|error| failed(&error))?;
    let mut rows: Vec<Row> = stored
        .into_iter()
        .map(|secret| Row { uses: uses_of(&secret.name, loaded), set_at: Some(secret.set_at), name: secret.name })
        .collect();
    for used in loaded.secret_uses() {
        if rows.iter().all(|row| row.name != used.name) {
            rows.push(Row { uses: uses_of(&used.name, loaded), set_at: None, name: used.name });
        }
    }
    if output.format == Format::Raw {
        rows.iter().for_each(|row| output.content(format!("{}\n", row.name).as_bytes()));
        return Ok(ExitCode::Ok);
    }
    if output.format != Format::Human {
        let views: Vec<Value> = rows.iter().map(Row::view).collect();
        output.json(&Raw::of(&json!({ "secrets": views, "vault": secrets.place() })));
        return Ok(ExitCode::Ok);
    }
    if rows.is_empty() {
        output.notice("toolway: no secrets; store one with `toolway secret set NAME`");
        return Ok(ExitCode::Ok);
    }
    let cells = |row: &Row| {
        let uses: Vec<String> = row.uses.iter().map(|used| format!("{} ({})", used.key, used.place)).collect();
        let uses = if uses.is_empty() { "not used here".to_owned() } else { uses.join(", ") };
        [row.name.to_string(), row.set_at.map_or_else(|| "not stored".to_owned(), time::rfc3339_of), uses]
    };
    output.table(["NAME", "STORED", "USED BY"], &rows.iter().map(cells).collect::<Vec<_>>());
    output.line(&format!("Secrets are stored in {}.", secrets.place()));
    Ok(ExitCode::Ok)
}

impl Row {
    fn view(&self) -> Value {
        json!({ "name": self.name.as_str(), "setAt": self.set_at.map(time::rfc3339_of), "usedBy": views(&self.uses) })
    }
}

fn remove(name: &SecretName, loaded: &Loaded, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let removed = app.secrets(&loaded.config.settings).remove(name).map_err(|error| failed(&error))?;
    let uses = uses_of(name, loaded);
    if removed == Removed::NotFound {
        return Err(Report::usage("unknown_secret", format!("no secret `{name}` is stored"))
            .hint("list the secrets with `toolway secret list`"));
    }
    app.audit(kind::SECRET, None, Some(name.as_str()), &json!({ "change": "removed" }));
    if output.format != Format::Human {
        output.json(&Raw::of(&json!({ "removed": name.as_str(), "usedBy": views(&uses) })));
        return Ok(ExitCode::Ok);
    }
    output.line(&format!("Removed `{name}`."));
    for used in &uses {
        output
            .notice(&format!("toolway: warning: {} ({}) still refers to it and cannot be used", used.key, used.place));
    }
    Ok(ExitCode::Ok)
}

fn uses_of(name: &SecretName, loaded: &Loaded) -> Vec<SecretUse> {
    loaded.secret_uses().into_iter().filter(|used| used.name == *name).collect()
}

fn views(uses: &[SecretUse]) -> Vec<Value> {
    let view = |used: &SecretUse| {
        let SecretUse { place, key, server, .. } = used;
        json!({ "server": server, "key": key, "file": place.file, "line": place.line })
    };
    uses.iter().map(view).collect()
}

/// The report of a vault that does not store or read a secret.
pub(crate) fn failed(error: &SecretError) -> Report {
    let report = Report::vault(error);
    match error {
        SecretError::Ephemeral => report.hint(
            "set `signIn.vault` to `auto` or `file` and give this program a home directory that it can write, or refer to an \
             environment variable, `${NAME}`",
        ),
        SecretError::Vault(_) | SecretError::Damaged(_) | SecretError::NoThread(_) => report,
    }
}
