//! `toolway store backup` and `restore`: the database, and with a passphrase the vault and the keys of clients.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;
use toolway_config::{Secret, Settings};
use toolway_gateway::control::ControlRequest;
use toolway_host::{record::kind, state_file::StateFile, time};
use toolway_vault::{BundleError, SecretBundle};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    effect::Effect,
    exit_code::ExitCode,
    output::{self, Format, Output},
    report::Report,
    storage::backup::{self, BackupError, Existing},
    terminal::hidden_line::{self, HiddenLine},
};

#[derive(Debug, clap::Args)]
pub(super) struct BackupArgs {
    /// The new file
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// Include the vault and the keys of clients, encrypted with a passphrase
    #[arg(long)]
    with_secrets: bool,

    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// The backup
    file: PathBuf,

    /// Restore no secrets
    #[arg(long)]
    without_secrets: bool,

    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// Where the passphrase comes from; asked for at a terminal.
#[derive(Debug, clap::Args)]
pub(super) struct PassphraseArgs {
    /// File with the passphrase of the secrets [default: `TOOLWAY_BACKUP_PASSPHRASE`, or a prompt]
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// Environment variable with the passphrase.
const VARIABLE: &str = "TOOLWAY_BACKUP_PASSPHRASE";
/// Secret files of the state directory: digests of client keys, and the key of sealed handles.
const FILES: [&str; 2] = ["clients.json", "gateway.key"];

impl BackupArgs {
    pub(super) fn effect(&self) -> Effect {
        if self.with_secrets { Effect::Widens } else { Effect::Ordinary }
    }
}

pub(super) async fn write(args: &BackupArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let file = &*args.file;
    let settings = app.load()?.config.settings;
    let database = database(app, &settings)?;
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    if existing == Existing::Keep && file.exists() {
        // Before a passphrase is asked for.
        return Err(BackupError::Exists(file.to_owned()).into());
    }
    let secrets = match args.with_secrets {
        true => Some(sealed_secrets(&args.passphrase, &settings, app).await?),
        false => None,
    };
    let target = file.to_owned();
    let write = move || backup::write(&database, &target, secrets.as_deref(), existing);
    let written = blocking(write).await??;
    if written.secrets.is_some() {
        app.audit(kind::SECRET, None, Some("backup"), &json!({ "change": "backed up" }));
    }
    if output.format == Format::Human {
        let secrets = if written.secrets.is_some() { "with secrets" } else { "without secrets" };
        output.line(&format!("Wrote {} to {}, {secrets}.", calls(written.calls), file.display()));
    } else {
        let has_secrets = written.secrets.is_some();
        output.json(&Raw::of(&json!({ "file": file, "calls": written.calls, "secrets": has_secrets })));
    }
    Ok(ExitCode::Ok)
}

pub(super) async fn restore(args: &RestoreArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let file = &*args.file;
    let settings = app.load()?.config.settings;
    let database = database(app, &settings)?;
    // A gateway without a store uses the keys of clients as well.
    if !app.ask_all_gateways(&ControlRequest::Keys { client: String::new() }).await?.is_empty() {
        return Err(BackupError::InUse(database).into());
    }
    let source = file.to_owned();
    let content = blocking(move || backup::read(&source)).await??;
    // Before anything is changed, because the passphrase may be wrong.
    let bundle = match content.secrets {
        Some(sealed) if !args.without_secrets => {
            let passphrase = args.passphrase.read(app).await?;
            Some(blocking(move || SecretBundle::open(&sealed, &passphrase)).await??)
        }
        _ => None,
    };
    let source = file.to_owned();
    let kept = blocking(move || backup::restore(&source, &database)).await??;
    if let Some(bundle) = &bundle {
        bundle.store_in(&*app.vault(&settings)).await?;
        for (name, content) in bundle.files().iter().filter(|(name, _)| FILES.contains(&name.as_str())) {
            let path = state_file(app, name)?;
            replace(&path, content).map_err(|error| unusable(&path, &error))?;
        }
    }
    let made_at = time::rfc3339(content.made_at);
    let details = json!({ "change": "restored", "madeAt": made_at, "secrets": bundle.is_some() });
    app.audit(kind::CONFIGURATION, None, Some("store"), &details);
    let kept = kept.map(|kept| kept.display().to_string());
    if output.format == Format::Human {
        output.line(&format!("Restored {} as of {made_at}.", calls(content.calls)));
        if let Some(bundle) = &bundle {
            let files = bundle.files().len();
            output.line(&format!("Restored {} entries of the vault and {files} files of keys.", bundle.credentials()));
        }
        if let Some(kept) = &kept {
            output.notice(&format!("toolway: the database before is kept as `{kept}`"));
        }
    } else {
        let restored = json!({
            "calls": content.calls,
            "madeAt": made_at,
            "secrets": bundle.is_some(),
            "previous": kept,
        });
        output.json(&Raw::of(&restored));
    }
    Ok(ExitCode::Ok)
}

async fn sealed_secrets(passphrase: &PassphraseArgs, settings: &Settings, app: &App) -> Result<Vec<u8>, Report> {
    let passphrase = passphrase.read(app).await?;
    let mut bundle = SecretBundle::of(&*app.vault(settings)).await?;
    for name in FILES {
        let path = state_file(app, name)?;
        match fs::read(&path) {
            Ok(content) => bundle.add_file(name, content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unusable(&path, &error)),
        }
    }
    Ok(blocking(move || bundle.seal(&passphrase)).await??)
}

impl PassphraseArgs {
    async fn read(&self, app: &App) -> Result<Secret, Report> {
        let text = match (&self.passphrase_file, app.environment.get(OsStr::new(VARIABLE))) {
            (Some(file), _) => fs::read_to_string(file).map_err(|error| unusable(file, &error))?,
            (None, Some(text)) => text.to_string_lossy().into_owned(),
            (None, None) if output::is_interactive() => {
                let typed = blocking(|| hidden_line::read("Passphrase of the backup (hidden): ")).await?;
                match typed.map_err(|error| Report::usage("passphrase", error.to_string()))? {
                    HiddenLine::Text(text) => text,
                    HiddenLine::Left => return Err(Report::interrupted()),
                    HiddenLine::SeveralLines => String::new(),
                }
            }
            (None, None) => String::new(),
        };
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            let hint = format!("give it with --passphrase-file or in `{VARIABLE}`");
            return Err(Report::usage("passphrase", "the secrets of a backup need a passphrase").hint(hint));
        }
        Ok(Secret::new(text))
    }
}

fn calls(number: u64) -> String {
    if number == 1 { "1 call".to_owned() } else { format!("{number} calls") }
}

fn database(app: &App, settings: &Settings) -> Result<PathBuf, Report> {
    if settings.store.url.value.is_some() {
        let report = Report::usage("store", "the store is a Postgres database, which is backed up with its own tools");
        return Err(report.hint("use `pg_dump` and `pg_restore` with the URL of `store.url`"));
    }
    let no_home = || Report::usage("config", "no home directory, so there is no database");
    app.store_path(settings).ok_or_else(no_home)
}

fn state_file(app: &App, name: &str) -> Result<PathBuf, Report> {
    let folder = app.paths.state.as_ref();
    folder.map(|folder| folder.join(name)).ok_or_else(|| Report::usage("config", "no home directory"))
}

/// Replaces a file of the state directory.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = StateFile::at(path, content.len());
    file.replace(&file.lock()?, content)
}

async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, Report> {
    let stopped = |error: tokio::task::JoinError| Report::new(ExitCode::Internal, "internal", error.to_string());
    tokio::task::spawn_blocking(act).await.map_err(stopped)
}

impl From<BackupError> for Report {
    fn from(error: BackupError) -> Self {
        let message = error.to_string();
        match error {
            BackupError::Exists(_) => Self::usage("backup", message).hint("choose another name, or add --force"),
            BackupError::InUse(_)
            | BackupError::NoDatabase(_)
            | BackupError::NotABackup(_)
            | BackupError::Damaged { .. } => Self::usage("backup", message),
            BackupError::Store(_) => Self::new(ExitCode::Internal, "backup", message),
        }
    }
}

impl From<BundleError> for Report {
    fn from(error: BundleError) -> Self {
        Self::usage("secrets", error.to_string())
    }
}

fn unusable(path: &Path, error: &io::Error) -> Report {
    Report::new(ExitCode::Internal, "file", format!("`{}`: {error}", path.display()))
}
