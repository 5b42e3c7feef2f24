//! Server lists written for other hosts: found, read with their own rules, never changed.
//!
//! Each format is a table of what its keys mean (`import/<format>.rs`). An entry that cannot be used is set aside
//! with its reason; the others of its file are.

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
mod mcporter;
mod opencode;
mod rules;
mod sign_in;
mod vscode;
mod windsurf;
mod zed;

use std::{collections::BTreeSet, path::Path};

use crate::{
    document::Document,
    error::ConfigError,
    interpolate::Reference,
    server::{Behind, Format, ServerConfig},
    warning::{Warning, WarningKind},
};

pub use copy::{CopiedEntry, copy};
pub use find::{FoundFile, SearchIn, find};

use entry::Reading;
use find::Spot;

/// What other hosts' files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The servers, in the order they were found; a label may stand here more than once.
    pub servers: Vec<ServerConfig>,
    /// What a person has to be asked for before some of them can start.
    pub inputs: Vec<Input>,
    /// What was set aside or read past.
    pub warnings: Vec<Warning>,
}

/// Something a person is asked for once, as an editor's file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The id that `${input:…}` names.
    pub id: String,
    /// The question.
    pub description: Option<String>,
    /// Whether the answer is shown while it is typed.
    pub echo: Echo,
}

/// Whether an answer is shown while it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// It is.
    Shown,
    /// It is not: a password.
    Hidden,
}

/// How one host writes its servers down.
struct Host {
    format: Format,
    /// Where its files are, nearest first.
    spots: &'static [Spot],
    read: fn(&mut Reading<'_>) -> Result<(), ConfigError>,
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
    };
    Some(host)
}

/// Reads one file that was found.
pub fn read(found: &FoundFile, search: &SearchIn<'_>) -> Result<Imported, ConfigError> {
    let mut imported = Imported::default();
    let Some(host) = host(found.format) else { return Ok(imported) };
    let document = match found.behind {
        Behind::Project => Document::read_of_project(&found.file)?,
        Behind::User | Behind::Program => Document::read(&found.file)?,
    };
    let mut reading = Reading::new(found, search, &document, &mut imported);
    (host.read)(&mut reading)?;
    Ok(imported)
}

/// Everything these formats have here. A file that cannot be read is a warning; the others are read.
pub fn read_all(formats: &[Format], search: &SearchIn<'_>) -> Imported {
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
    /// Adds what another file says; an entry that two formats read in one file is the same entry.
    fn add(&mut self, other: Self, seen: &mut BTreeSet<(crate::error::Place, String)>) {
        let new = |server: &ServerConfig| seen.insert((server.source.place.clone(), server.label.clone()));
        self.servers.extend(other.servers.into_iter().filter(new));
        self.inputs.extend(other.inputs);
        self.warnings.extend(other.warnings);
    }

    /// The inputs a server needs.
    pub fn inputs_of<'a>(&'a self, server: &ServerConfig) -> impl Iterator<Item = &'a Input> {
        let texts = server.transport.texts();
        let references: Vec<Reference> = texts.iter().flat_map(|(_, text)| text.references()).collect();
        self.inputs.iter().filter(move |input| references.contains(&Reference::Input(input.id.clone())))
    }
}
