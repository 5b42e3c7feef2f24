//! `toolway import`: the servers that other hosts have in their files.

mod copying;
mod report;

use clap::builder::PossibleValuesParser;
use toolway_config::{
    Loaded,
    import::{FoundFile, Imported, SearchIn, find, read},
    server::Format,
};

use crate::{app::App, exit_code::ExitCode, output::Output, report::Report};

/// Find the servers that other hosts have in their files, and copy them if you like
///
/// Read are the files of sixteen hosts in your home and in the project, each by its own rules: its placeholders, its way
/// to switch a server off, its filters and its unit of time. Nothing is started, dialled or changed. With --copy the
/// servers are put into your own file; secrets stay where they are, and a variable is named for each. Without copying,
/// `"imports": ["<host>"]` in your own file uses another host's file as it is, every time anew.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// The host, or all of them
    #[arg(default_value = ALL, value_parser = PossibleValuesParser::new(hosts()))]
    host: String,

    /// Put the servers into your own file
    #[arg(long)]
    copy: bool,

    /// With --copy: put what a project's files say into the project's toolway.json
    #[arg(long, requires = "copy")]
    project: bool,
}

const EXAMPLES: &str = "\
Examples:
  toolway import                        What is there, of all hosts
  toolway import cursor                 Only that of Cursor
  toolway import claude-code --copy     Put into your own toolway.json, without secrets";

const ALL: &str = "all";

/// One file and what it says, or why it cannot be read.
pub(crate) struct Read {
    found: FoundFile,
    imported: Result<Imported, String>,
}

fn hosts() -> Vec<&'static str> {
    std::iter::once(ALL).chain(Format::OTHERS.map(Format::word)).collect()
}

pub(crate) fn run(args: &ImportArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let files = read_files(args, app)?;
    if !args.copy {
        report::found(args, &files, &loaded, app, output);
        return Ok(ExitCode::Ok);
    }
    let whose = if args.project { copying::Whose::Project } else { copying::Whose::User };
    let copied = copying::copy_all(&files, whose, app)?;
    report::copied(&files, &copied, output);
    Ok(ExitCode::Ok)
}

fn read_files(args: &ImportArgs, app: &App) -> Result<Vec<Read>, Report> {
    let formats: Vec<Format> = Format::of_word(&args.host).map_or_else(|| Format::OTHERS.to_vec(), |one| vec![one]);
    let project = app.project()?.folder;
    let search = SearchIn {
        home: app.paths.home.as_deref(),
        config: app.paths.config.as_deref().and_then(std::path::Path::parent),
        project: project.as_deref(),
        environment: &app.environment,
    };
    let read_one = |found: FoundFile| {
        let imported = read(&found, &search).map_err(|error| error.to_string());
        Read { found, imported }
    };
    Ok(find(&formats, &search).into_iter().map(read_one).collect())
}

/// Whether the user's own configuration reads the files of this host.
fn is_in_use(loaded: &Loaded, format: Format) -> bool {
    loaded.config.settings.imports.value.contains(&format)
}
