//! Configuration files of other hosts: found, read with their own rules, never changed.
//!
//! Each format is a table of the meaning of its keys (`import/<format>.rs`). An unusable entry is skipped with a warning;
//! the other entries of its file are used.

mod authentication;
mod claude_code;
mod claude_desktop;
mod cline;
mod codex;
mod copilot;
mod copy;
mod cursor;
mod entry;
mod find;
mod gemini;
mod goose;
mod inspector;
mod kiro;
mod label;
mod mcp_section;
mod mcporter;
mod opencode;
mod recognise;
mod rules;
mod server_list;
mod server_map;
mod sign_in;
mod snippet;
mod vscode;
mod windsurf;
mod zed;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    config::Config,
    document::Document,
    error::ConfigError,
    interpolate::Reference,
    server::{DefinedBy, Format, ServerConfig, ServerName},
    settings::{Origin, Settings},
    warning::{Warning, WarningKind},
};

pub use copy::{CopiedEntry, copy, input_secret};
pub use find::{FoundFile, SearchRoots, find};
pub use label::{is_installer, label_for};
pub use snippet::read_snippet;

pub(crate) use recognise::{OTHER_CONTAINERS, recognise};

use entry::FileReader;
use find::Location;

/// Content of the files of other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Servers in the order in which they were found; labels may occur more than once.
    pub servers: Vec<ServerConfig>,
    /// Inputs that the user must enter before some servers can start.
    pub inputs: Vec<Input>,
    /// Warnings about skipped entries and ignored keys.
    pub warnings: Vec<Warning>,
    /// Keys of `agent` that the file turns off, which has the same effect only for all servers.
    pub turned_off: Vec<&'static str>,
    /// Settings of the file for all its servers. [`read`] applies them to the servers.
    pub(crate) settings: Settings,
}

/// An input that the user enters once, as VS Code files define it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Id in `${input:…}`.
    pub id: String,
    /// Prompt text.
    pub description: Option<String>,
    /// Whether the value is shown while it is typed.
    pub echo: Echo,
}

/// Whether a value is shown while it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Shown while typed.
    Shown,
    /// Hidden, for passwords.
    Hidden,
}

/// Format and file locations of one host.
struct Host {
    format: Format,
    /// Locations of its files, nearest first.
    locations: &'static [Location],
    read: fn(&mut FileReader<'_>) -> Result<(), ConfigError>,
}

fn host(format: Format) -> Option<&'static Host> {
    let host = match format {
        Format::Toolway => return None,
        Format::ClaudeCode => &claude_code::HOST,
        Format::ClaudeDesktop => &claude_desktop::HOST,
        Format::Cursor => &cursor::HOST,
        Format::VsCode => &vscode::HOST,
        Format::CopilotCli => &copilot::HOST,
        Format::Codex => &codex::HOST,
        Format::GeminiCli => &gemini::HOST,
        Format::Opencode => &opencode::HOST,
        Format::OpencodeTwo => &opencode::HOST_TWO,
        Format::Zed => &zed::HOST,
        Format::Windsurf => &windsurf::HOST,
        Format::Goose => &goose::HOST,
        Format::Kiro => &kiro::HOST,
        Format::Cline => &cline::HOST,
        Format::Inspector => &inspector::HOST,
        Format::Mcporter => &mcporter::HOST,
        Format::McpSection => &mcp_section::HOST,
        Format::ServerMap => &server_map::HOST,
        Format::ServerList => &server_list::HOST,
        Format::Snippet => &snippet::HOST,
    };
    Some(host)
}

/// Reads one file.
pub fn read(found: &FoundFile, search: &SearchRoots<'_>) -> Result<Imported, ConfigError> {
    let mut imported = Imported::default();
    let Some(host) = host(found.format) else { return Ok(imported) };
    let document = match found.defined_by {
        DefinedBy::Project => Document::read_of_project(&found.file)?,
        DefinedBy::User | DefinedBy::Program => Document::read(&found.file)?,
    };
    let mut reader = FileReader::new(found, search, &document, &mut imported);
    (host.read)(&mut reader)?;
    imported.apply_settings();
    Ok(imported)
}

/// Reads a file that the user names, by its shape: one of another host, or Toolway's own.
pub fn read_named(file: &Path, search: &SearchRoots<'_>) -> Result<(FoundFile, Imported), ConfigError> {
    let document = Document::read(file)?;
    let found = |format| FoundFile { format, file: file.to_owned(), defined_by: DefinedBy::User };
    let Some(format) = recognise(&document) else {
        let Config { servers, warnings, .. } = Config::of(&document, search.home.map(Path::to_owned).as_ref())?;
        let servers = servers.into_values().collect();
        return Ok((found(Format::Toolway), Imported { servers, warnings, ..Imported::default() }));
    };
    let found = found(format);
    let imported = read(&found, search)?;
    refuse_duplicates(&imported.servers)?;
    Ok((found, imported))
}

/// Reads a document of another format as the configuration file of the user: its settings are kept, and an invalid entry
/// is a problem of the user's own file. `folder` is the default working directory of its programs.
pub(crate) fn read_as_own(
    document: &Document,
    format: Format,
    folder: Option<&PathBuf>,
) -> Result<Imported, ConfigError> {
    let mut imported = Imported::default();
    let found = FoundFile { format, file: document.file().to_owned(), defined_by: DefinedBy::User };
    let environment = crate::paths::Environment::new();
    let search =
        SearchRoots { home: folder.map(PathBuf::as_path), config: None, project: None, environment: &environment };
    let mut reader = FileReader::new(&found, &search, document, &mut imported);
    if let Some(base) = found.file.parent() {
        reader.set_base(base);
    }
    if let Some(host) = host(format) {
        (host.read)(&mut reader)?;
    }
    refuse_duplicates(&imported.servers)?;
    for warning in imported.warnings.iter_mut().filter(|warning| warning.kind == WarningKind::SetAside) {
        warning.kind = WarningKind::Broken;
    }
    Ok(imported)
}

/// Two labels must not give the same server name.
fn refuse_duplicates(servers: &[ServerConfig]) -> Result<(), ConfigError> {
    let mut seen: BTreeMap<&ServerName, &ServerConfig> = BTreeMap::new();
    for server in servers {
        if let Some(other) = seen.insert(&server.name, server) {
            return Err(ConfigError::DuplicateName {
                place: server.source.place.clone(),
                label: server.label.clone(),
                other: other.label.clone(),
                name: server.name.to_string(),
            });
        }
    }
    Ok(())
}

/// Reads all files of these formats. A file that cannot be read gives a warning; the others are read.
pub fn read_all(formats: &[Format], search: &SearchRoots<'_>) -> Imported {
    let (mut all, mut seen) = (Imported::default(), BTreeSet::new());
    for found in find(formats, search) {
        match read(&found, search) {
            Ok(imported) => all.add(imported, &mut seen),
            Err(error) => all.warnings.push(unreadable(&found.file, &error)),
        }
    }
    all
}

fn unreadable(file: &Path, error: &ConfigError) -> Warning {
    let place = crate::error::Place { file: file.to_owned(), line: 0 };
    Warning::of_file(WarningKind::SetAside, place, "the file", error.to_string())
}

impl Imported {
    /// Adds the content of another file; an entry that two formats read from the same line is added once.
    fn add(&mut self, other: Self, seen: &mut BTreeSet<(crate::error::Place, String)>) {
        let new = |server: &ServerConfig| seen.insert((server.source.place.clone(), server.label.clone()));
        self.servers.extend(other.servers.into_iter().filter(new));
        self.inputs.extend(other.inputs);
        self.warnings.extend(other.warnings);
    }

    /// Applies the settings of the file to its servers, which are used beside those of other files.
    fn apply_settings(&mut self) {
        let Settings { start, request_timeout, agent, .. } = &self.settings;
        for server in &mut self.servers {
            server.timeouts.total = server.timeouts.total.or(request_timeout.value);
            if start.origin != Origin::Default {
                server.start = server.start.or(Some(start.value));
            }
        }
        for (name, setting) in [("exposeResources", &agent.expose_resources), ("exposePrompts", &agent.expose_prompts)]
        {
            // The other value is the default here.
            if let (Some(false), Origin::File(place)) = (setting.value, &setting.origin) {
                self.turned_off.push(name);
                let message = format!("it applies to all servers: `import --copy` sets `agent.{name}` to `false`");
                let kind = WarningKind::IgnoredKey;
                self.warnings.push(Warning { place: place.clone(), message, kind, unused: None });
            }
        }
    }

    /// Inputs of a server.
    pub fn inputs_of<'a>(&'a self, server: &ServerConfig) -> impl Iterator<Item = &'a Input> {
        let texts = server.transport.texts();
        let references: Vec<Reference> = texts.iter().flat_map(|(_, text)| text.references()).collect();
        self.inputs.iter().filter(move |input| references.contains(&Reference::Input(input.id.clone())))
    }
}
