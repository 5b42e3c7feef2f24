//! `toolway import`: servers in the configuration files of other applications.

pub(crate) mod console;
mod copy;
mod offer;
mod report;

use std::path::Path;

use clap::ValueHint;
use toolway_config::{
    Loaded,
    import::{FoundFile, Imported, SearchRoots, find, read, read_named},
    server::Format,
};

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{self, Output},
    report::Report,
    suggestion,
};

/// Find servers configured in other applications, and copy them or keep reading them
///
/// Reads the files of sixteen applications in your home directory and in the project, each with its own placeholders, ways
/// to disable a server, filters and time units, and lists their servers. Connects to nothing. At a terminal it then asks
/// whether to copy them to your own file; a script says --copy. Secrets go to the vault (`toolway secret list`), and the
/// file refers to them; inputs of VS Code are asked for and stored there too. Alternatively, --keep reads the
/// applications' files where they are (`imports` in your own file).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// The application, a file, or `all`
    ///
    /// Applications: claude-code, claude-desktop, cursor, vscode, copilot, codex, gemini, opencode, opencode-v2, zed,
    /// windsurf, goose, kiro, cline, inspector, mcporter. A file is recognised by its content: servers in the container of
    /// any of these applications, in a list, or without a container.
    #[arg(default_value = ALL, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    host: String,

    /// Copy the servers to your own file
    #[arg(long)]
    copy: bool,

    /// Keep reading the files where they are: adds the applications to `imports` of your own file
    #[arg(long, conflicts_with = "copy")]
    keep: bool,

    /// With --copy: copy servers of project files to the project's toolway.json
    #[arg(long, requires = "copy")]
    project: bool,
}

const EXAMPLES: &str = "\
Examples:
  toolway import                        Servers of all applications
  toolway import cursor                 Only those of Cursor
  toolway import ./servers.yaml         Those of a file
  toolway import claude-code --copy     Copy to your own toolway.json, and secrets to the vault
  toolway import cursor --keep          Read Cursor's file where it is";

const ALL: &str = "all";

/// One file with its content, or why it cannot be read.
pub(crate) struct SourceFile {
    found: FoundFile,
    imported: Result<Imported, String>,
}

/// Names of the argument: `all` and the applications.
pub(crate) fn hosts() -> Vec<&'static str> {
    std::iter::once(ALL).chain(Format::OTHERS.map(Format::as_str)).collect()
}

pub(crate) async fn run(args: &ImportArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let files = read_files(args, app)?;
    if args.keep {
        offer::keep(&files, &loaded, app, output)?;
        app.apply_in_gateway(output).await?;
        return Ok(ExitCode::Ok);
    }
    if !args.copy {
        report::print_found(args, &files, &loaded, app, output);
        offer::offer(args, &files, &loaded, app, output).await?;
        return Ok(ExitCode::Ok);
    }
    let destination = if args.project { copy::Destination::Project } else { copy::Destination::User };
    let entered = match output::is_interactive() {
        true => offer::enter_inputs(&copy::preview(&files, destination, app)?, output).await?,
        false => copy::EnteredInputs::new(),
    };
    let copied = copy::copy_all(&files, destination, &entered, app)?;
    report::print_copied(&files, &copied, output);
    app.apply_in_gateway(output).await?;
    Ok(ExitCode::Ok)
}

fn read_files(args: &ImportArgs, app: &App) -> Result<Vec<SourceFile>, Report> {
    let project = app.project()?.folder;
    let search = SearchRoots {
        home: app.paths.home.as_deref(),
        config: app.paths.config.as_deref().and_then(Path::parent),
        project: project.as_deref(),
        environment: &app.environment,
    };
    let formats = match Format::from_name(&args.host) {
        Some(format) => vec![format],
        None if args.host == ALL => Format::OTHERS.to_vec(),
        None => {
            let file = Path::new(&args.host);
            if !file.exists() {
                return Err(unknown_source(&args.host));
            }
            let (found, imported) = read_named(file, &search)?;
            return Ok(vec![SourceFile { found, imported: Ok(imported) }]);
        }
    };
    let read_one = |found: FoundFile| {
        let imported = read(&found, &search).map_err(|error| error.to_string());
        SourceFile { found, imported }
    };
    Ok(find(&formats, &search).into_iter().map(read_one).collect())
}

fn unknown_source(source: &str) -> Report {
    let near = suggestion::did_you_mean(source, hosts());
    Report::usage("usage", format!("`{source}` is neither an application nor a file{near}"))
        .hint("list the applications with `toolway import --help`")
}

/// Whether the user's configuration imports the files of this application.
fn is_in_use(loaded: &Loaded, format: Format) -> bool {
    loaded.config.settings.imports.value.contains(&format)
}
