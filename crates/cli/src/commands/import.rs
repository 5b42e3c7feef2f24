//! `toolway import`: servers in the configuration files of other applications.

mod copy;
mod report;

use clap::builder::PossibleValuesParser;
use toolway_config::{
    Loaded,
    import::{FoundFile, Imported, SearchRoots, find, read},
    server::Format,
};

use crate::{app::App, exit_code::ExitCode, output::Output, report::Report};

/// Find servers configured in other applications, and optionally copy them
///
/// Reads the files of sixteen applications in your home directory and in the project, each with its own placeholders, ways
/// to disable a server, filters and time units. Without --copy, changes nothing and connects to nothing. With --copy,
/// copies the servers to your own file, except secrets, for which it names a variable each. Alternatively,
/// `"imports": ["<application>"]` in your own file uses another application's file as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// The application, or `all`
    #[arg(default_value = ALL, value_parser = PossibleValuesParser::new(hosts()))]
    host: String,

    /// Copy the servers to your own file
    #[arg(long)]
    copy: bool,

    /// With --copy: copy servers of project files to the project's toolway.json
    #[arg(long, requires = "copy")]
    project: bool,
}

const EXAMPLES: &str = "\
Examples:
  toolway import                        Servers of all applications
  toolway import cursor                 Only those of Cursor
  toolway import claude-code --copy     Copy to your own toolway.json, without secrets";

const ALL: &str = "all";

/// One file with its content, or why it cannot be read.
pub(crate) struct SourceFile {
    found: FoundFile,
    imported: Result<Imported, String>,
}

fn hosts() -> Vec<&'static str> {
    std::iter::once(ALL).chain(Format::OTHERS.map(Format::as_str)).collect()
}

pub(crate) fn run(args: &ImportArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let files = read_files(args, app)?;
    if !args.copy {
        report::print_found(args, &files, &loaded, app, output);
        return Ok(ExitCode::Ok);
    }
    let destination = if args.project { copy::Destination::Project } else { copy::Destination::User };
    let copied = copy::copy_all(&files, destination, app)?;
    report::print_copied(&files, &copied, output);
    Ok(ExitCode::Ok)
}

fn read_files(args: &ImportArgs, app: &App) -> Result<Vec<SourceFile>, Report> {
    let formats: Vec<Format> = Format::from_name(&args.host).map_or_else(|| Format::OTHERS.to_vec(), |one| vec![one]);
    let project = app.project()?.folder;
    let search = SearchRoots {
        home: app.paths.home.as_deref(),
        config: app.paths.config.as_deref().and_then(std::path::Path::parent),
        project: project.as_deref(),
        environment: &app.environment,
    };
    let read_one = |found: FoundFile| {
        let imported = read(&found, &search).map_err(|error| error.to_string());
        SourceFile { found, imported }
    };
    Ok(find(&formats, &search).into_iter().map(read_one).collect())
}

/// Whether the user's configuration imports the files of this application.
fn is_in_use(loaded: &Loaded, format: Format) -> bool {
    loaded.config.settings.imports.value.contains(&format)
}
