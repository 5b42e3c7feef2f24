//! One server as the operator wrote it: finished values, with its references still in place.

pub mod auth;
mod draft;
mod filters;
mod keys;
mod name;
mod read;
mod source;
pub mod timeouts;
mod transport;
mod variables;

use std::{collections::BTreeMap, time::Duration};

pub use filters::{Filters, NameFilter, Offered};
pub use name::{InvalidServerName, ServerName};
pub use source::{Behind, Format, Source};
pub use timeouts::{Clocks, Timeouts};
pub use transport::{Http, HttpKind, PlainHttp, Process, Transport};
pub use variables::{Held, VariablesFile};

pub(crate) use draft::{Draft, Kind, all_but, only};
pub(crate) use keys::{KEYS, OF_OTHERS, kind};
pub(crate) use read::{read, server_name};

use crate::{error::Place, interpolate::Template};

/// One server. References are put in by [`endpoint`](Self::endpoint), when it is started or dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Made from the label.
    pub name: ServerName,
    /// As it was pasted.
    pub label: String,
    /// Which file and line, whose format, who stands behind it.
    pub source: Source,
    /// How it is reached.
    pub transport: Transport,
    /// Whether it may be used.
    pub standing: Standing,
    /// Whether everything fails without it.
    pub need: Need,
    /// Which revisions are spoken.
    pub era: Era,
    /// What it says about time; [`Config::clocks`](crate::Config::clocks) has the defaults put in.
    pub timeouts: Timeouts,
    /// What of it is offered.
    pub filters: Filters,
    /// How often in a row connecting is tried again; nothing said means for ever.
    pub retries: Option<u32>,
    /// When it is connected; nothing said means as [`Config::start`](crate::Config::start) says.
    pub start: Option<Start>,
    /// Disconnected after so long without use.
    pub idle_stop: Option<Duration>,
    /// Who shares a connection to it.
    pub sharing: Sharing,
    /// For people.
    pub description: Option<String>,
    /// Where each key stands, by our name for it; what is not here nobody said.
    pub origins: BTreeMap<&'static str, Place>,
}

/// Whether an entry may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    #[default]
    Enabled,
    /// `"disabled": true`, or `"enabled": false`.
    Disabled,
}

/// Whether everything fails without a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Need {
    /// The others go on.
    #[default]
    Optional,
    /// Nothing goes on.
    Required,
}

/// Which revisions are spoken with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// What the server speaks; found out once and remembered.
    #[default]
    Auto,
    /// 2025-11-25 and older.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// Who shares a connection to a server whose sessions remember who is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each caller has one.
    #[default]
    Caller,
    /// All callers have one, as long as they cannot be asked anything.
    Shared,
    /// Each session of each caller has one.
    Session,
}

/// When a server is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// When the host starts.
    #[default]
    AtOnce,
    /// When it is first needed.
    WhenNeeded,
}

impl ServerConfig {
    /// A program, as an embedding program may add one.
    pub fn process(name: ServerName, command: impl Into<String>, arguments: &[&str]) -> Self {
        Self::of(
            name,
            Transport::Process(Process {
                command: Template::literal(command),
                arguments: arguments.iter().map(|argument| Template::literal(*argument)).collect(),
                variables: Vec::new(),
                variables_file: None,
                directory: None,
            }),
        )
    }

    /// An address, as an embedding program may add one.
    pub fn http(name: ServerName, url: impl Into<String>) -> Self {
        let url = Template::literal(url);
        let (kind, plain) = (HttpKind::default(), PlainHttp::default());
        Self::of(
            name,
            Transport::Http(Http { url, headers: Vec::new(), kind, plain, auth: None, oauth: Box::default() }),
        )
    }

    /// A server that is reached like this, with everything else as usual.
    pub fn of(name: ServerName, transport: Transport) -> Self {
        Self {
            label: name.to_string(),
            name,
            source: Source::program(),
            transport,
            standing: Standing::default(),
            need: Need::default(),
            era: Era::default(),
            timeouts: Timeouts::default(),
            filters: Filters::default(),
            retries: None,
            start: None,
            idle_stop: None,
            sharing: Sharing::default(),
            description: None,
            origins: BTreeMap::new(),
        }
    }

    /// Whether a running connection of the one serves the other: the same program or address with the same
    /// variables, headers and directory, in the same era. Everything else takes effect without connecting anew.
    ///
    /// References are compared as they are written; that a variable has changed since is not seen here.
    pub fn same_connection(&self, other: &Self) -> bool {
        self.transport == other.transport
            && self.era == other.era
            && self.source.folder == other.source.folder
            && self.source.base == other.source.base
    }

    /// Whether it may be used.
    pub fn is_enabled(&self) -> bool {
        self.standing == Standing::Enabled
    }
}

impl Start {
    pub(crate) fn when_connected_at_once(on: bool) -> Self {
        if on { Self::AtOnce } else { Self::WhenNeeded }
    }
}

impl Standing {
    /// From a switch as it is written.
    pub fn when(enabled: bool) -> Self {
        if enabled { Self::Enabled } else { Self::Disabled }
    }
}

#[cfg(test)]
mod tests {
    use super::{Era, ServerConfig, ServerName, Standing};

    fn server() -> ServerConfig {
        ServerConfig::process(ServerName::from_label("files").unwrap(), "files", &["--all"])
    }

    #[test]
    fn what_a_running_connection_can_take_on_does_not_break_it() {
        let (mut moved, mut other_era) = (server(), server());
        moved.source.place.line = 7;
        moved.description = Some("x".to_owned());
        moved.standing = Standing::Disabled;
        assert_ne!(moved, server());
        assert!(moved.same_connection(&server()));

        other_era.era = Era::Legacy;
        assert!(!other_era.same_connection(&server()));
        let other = ServerConfig::process(server().name, "files", &["--some"]);
        assert!(!other.same_connection(&server()));
    }
}
