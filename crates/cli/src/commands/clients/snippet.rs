//! `toolway clients snippet`: what to paste into a client, or to run for it.

use serde_json::json;
use toolway_gateway::access::{KeyError, KeyFile};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    client_setup::{self, ClientSetup},
    commands::serve::DEFAULT_LISTEN,
    exit_code::ExitCode,
    exposure,
    output::{Format, Output},
    report::Report,
};

/// What stands for the key, which is shown only when it is created.
const KEY: &str = "<key>";

#[derive(Debug, clap::Args)]
pub(super) struct SnippetArgs {
    /// The client
    name: String,

    /// Only for this application
    #[arg(long = "for", value_enum, value_name = "APPLICATION")]
    application: Option<Application>,
}

/// Applications with a set-up of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Application {
    /// A command for Claude Code
    ClaudeCode,
    /// A part of the configuration of Codex
    Codex,
    /// An entry for the file of Cursor
    Cursor,
    /// A command for VS Code
    Vscode,
    /// A command for Gemini CLI
    Gemini,
}

impl Application {
    /// Its name in the set-ups.
    fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Gemini => "Gemini CLI",
        }
    }
}

pub(super) fn run(args: &SnippetArgs, file: &KeyFile, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    if !file.list()?.iter().any(|client| client.name == args.name) {
        return Err(KeyError::Unknown(args.name.clone()).into());
    }
    let settings = app.load()?.config.settings.gateway;
    let url = exposure::endpoint(&settings, settings.listen.value.unwrap_or(DEFAULT_LISTEN));
    let is_wanted = |setup: &ClientSetup| args.application.is_none_or(|wanted| wanted.name() == setup.client);
    let setups: Vec<ClientSetup> = client_setup::setups(&url, Some(KEY)).into_iter().filter(is_wanted).collect();
    match output.format {
        Format::Human => {
            output.line(&setups.iter().map(ClientSetup::shown).collect::<Vec<_>>().join("\n\n"));
            let name = &args.name;
            output.notice(&format!(
                "toolway: `{KEY}` is the key that `toolway clients add {name}` has printed; it is not stored"
            ));
        }
        Format::Raw => setups.iter().for_each(|setup| output.content(format!("{}\n", setup.text).as_bytes())),
        Format::Json | Format::Ndjson => {
            let view = |setup: &ClientSetup| json!({ "client": setup.client, "file": setup.file, "text": setup.text });
            let snippets: Vec<_> = setups.iter().map(view).collect();
            output.json(&Raw::of(&json!({ "name": args.name, "url": url, "snippets": snippets })));
        }
    }
    Ok(ExitCode::Ok)
}
