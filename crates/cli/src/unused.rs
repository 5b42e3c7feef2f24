//! What stands in a file and is not used: an entry or a file that was set aside, a project's server that waits for a
//! person.

use serde_json::{Map, Value, json};
use toolway_config::{Loaded, Place, ServerName, Warning, warning::WarningKind};

use crate::{
    commands::{
        config::place,
        servers::list::{self, State},
    },
    consent,
};

/// Something that is not used.
#[derive(Clone, Debug)]
pub(crate) struct Unused {
    /// The name it would have; none where it is a whole file, or where no name can be made.
    name: Option<String>,
    label: Option<String>,
    place: Place,
    /// Why, as a fragment.
    pub(crate) reason: String,
    pub(crate) why: Why,
    /// What is known of a server that waits.
    view: Option<Value>,
}

/// Which kind of not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It says what it may not, and somebody has to put it right.
    Broken,
    /// Somebody else's file has it, and it cannot be used here.
    SetAside,
    /// A project's file brought it along, and nobody has accepted it.
    Waits(State),
}

impl Unused {
    /// What was set aside.
    pub(crate) fn set_aside(loaded: &Loaded) -> Vec<Self> {
        loaded.config.warnings.iter().filter(|warning| warning.is_a_gap()).filter_map(Self::of_warning).collect()
    }

    /// The servers that wait for a person.
    pub(crate) fn waiting(loaded: &Loaded) -> Vec<Self> {
        let one = |proposal: &toolway_config::consent::Proposal| {
            let (server, state) = (&proposal.server, State::of_proposal(proposal));
            Self {
                name: Some(server.name.to_string()),
                label: Some(server.label.clone()),
                place: server.source.place.clone(),
                reason: consent::news(proposal).to_owned(),
                why: Why::Waits(state),
                view: Some(list::view(server, state)),
            }
        };
        loaded.proposals.iter().map(one).collect()
    }

    fn of_warning(warning: &Warning) -> Option<Self> {
        let aside = warning.aside.as_ref()?;
        let name = aside.label.as_deref().and_then(|label| ServerName::from_label(label).ok());
        let why = if warning.kind == WarningKind::Broken { Why::Broken } else { Why::SetAside };
        Some(Self {
            name: name.map(|name| name.to_string()),
            label: aside.label.clone(),
            place: warning.place.clone(),
            reason: aside.reason.clone(),
            why,
            view: None,
        })
    }

    /// What people call it: its name, its label, or the file.
    pub(crate) fn title(&self) -> String {
        let file = || self.place.file.display().to_string();
        self.name.clone().or_else(|| self.label.clone()).unwrap_or_else(file)
    }

    /// As it is written.
    pub(crate) fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Its state as a word.
    pub(crate) fn state(&self) -> &'static str {
        match self.why {
            Why::Broken | Why::SetAside => "set aside",
            Why::Waits(state) => state.words(),
        }
    }

    /// Whether it is a server that can be used once somebody says so.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.why, Why::Waits(_))
    }

    /// The object for programs.
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

    /// Where it stands.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// One sentence on what to do.
    pub(crate) fn advice(&self) -> String {
        match self.why {
            Why::Broken => format!("Put it right: {}.", self.place),
            Why::SetAside => "Nothing, unless you miss it; `toolway import` shows what its file says.".to_owned(),
            Why::Waits(_) => format!("Look at it, and accept it: toolway servers accept {}", self.title()),
        }
    }
}
