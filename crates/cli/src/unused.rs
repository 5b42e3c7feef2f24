//! Configuration that is not used: an entry or file that was set aside, or a project server that is not accepted.

use serde_json::{Map, Value, json};
use toolway_config::{Loaded, Place, ServerName, Warning, warning::WarningKind};

use crate::{
    commands::{
        config::place,
        servers::list::{self, EntryState},
    },
    consent,
};

/// An entry or file that is not used.
#[derive(Clone, Debug)]
pub(crate) struct Unused {
    /// Server name; `None` for a whole file, or if the label is not a valid name.
    name: Option<String>,
    label: Option<String>,
    place: Place,
    /// Reason, as a lower-case fragment.
    pub(crate) reason: String,
    pub(crate) why: UnusedReason,
    /// JSON view of a server that is not accepted.
    view: Option<Value>,
}

/// Why an entry is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnusedReason {
    /// Invalid; the user has to fix it.
    Broken,
    /// From another application's file, and not usable here.
    SetAside,
    /// From a project file, and not accepted.
    NotAccepted(EntryState),
}

impl Unused {
    /// The entries and files that were set aside.
    pub(crate) fn set_aside(loaded: &Loaded) -> Vec<Self> {
        loaded.config.warnings.iter().filter(|warning| warning.is_exclusion()).filter_map(Self::of_warning).collect()
    }

    /// The project servers that are not accepted.
    pub(crate) fn unaccepted(loaded: &Loaded) -> Vec<Self> {
        let one = |proposal: &toolway_config::consent::Proposal| {
            let (server, state) = (&proposal.server, EntryState::of_proposal(proposal));
            Self {
                name: Some(server.name.to_string()),
                label: Some(server.label.clone()),
                place: server.source.place.clone(),
                reason: consent::reason(proposal).to_owned(),
                why: UnusedReason::NotAccepted(state),
                view: Some(list::view(server, state)),
            }
        };
        loaded.proposals.iter().map(one).collect()
    }

    fn of_warning(warning: &Warning) -> Option<Self> {
        let aside = warning.unused.as_ref()?;
        let name = aside.label.as_deref().and_then(|label| ServerName::from_label(label).ok());
        let why = if warning.kind == WarningKind::Broken { UnusedReason::Broken } else { UnusedReason::SetAside };
        Some(Self {
            name: name.map(|name| name.to_string()),
            label: aside.label.clone(),
            place: warning.place.clone(),
            reason: aside.reason.clone(),
            why,
            view: None,
        })
    }

    /// Its name, its label, or the file.
    pub(crate) fn title(&self) -> String {
        let file = || self.place.file.display().to_string();
        self.name.clone().or_else(|| self.label.clone()).unwrap_or_else(file)
    }

    /// The key of the entry in the file.
    pub(crate) fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// The state in one word.
    pub(crate) fn state(&self) -> &'static str {
        match self.why {
            UnusedReason::Broken | UnusedReason::SetAside => "set aside",
            UnusedReason::NotAccepted(state) => state.words(),
        }
    }

    /// Whether it is a server that only has to be accepted.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.why, UnusedReason::NotAccepted(_))
    }

    /// The JSON object.
    pub(crate) fn object(&self) -> Value {
        if let Some(view) = &self.view {
            let mut view = view.clone();
            view["reason"] = self.reason.as_str().into();
            return view;
        }
        let mut object = Map::new();
        object.extend(self.name.iter().map(|name| ("name".to_owned(), json!(name))));
        object.extend(self.label.iter().map(|label| ("label".to_owned(), json!(label))));
        object.insert("state".to_owned(), json!(self.state()));
        object.insert("reason".to_owned(), json!(self.reason));
        object.insert("source".to_owned(), place(&self.place));
        Value::Object(object)
    }

    /// File and line.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// What the user should do.
    pub(crate) fn advice(&self) -> String {
        match self.why {
            UnusedReason::Broken => format!("fix {}", self.place),
            UnusedReason::SetAside => {
                "nothing, unless you need this server; `toolway import` shows its file".to_owned()
            }
            UnusedReason::NotAccepted(_) => {
                format!("review and accept it with `toolway servers accept {}`", self.title())
            }
        }
    }
}
