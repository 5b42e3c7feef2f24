//! The edits that the gateway makes in messages of servers, as data.

use std::collections::BTreeSet;

use serde::Deserialize;
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
    revision::Era,
};

/// All edits, in the order in which they are applied and shown.
pub(crate) struct Edits(Vec<KnownEdit>);

/// One member that the gateway changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownEdit {
    /// Message: `hello`, `lists`, `results` of any method, or the name of a method.
    pub(crate) about: String,
    /// Era: `2025`, `2026` or `both`.
    pub(crate) era: String,
    /// Path of member names.
    pub(crate) place: Vec<String>,
    pub(crate) kind: Kind,
    pub(crate) why: String,
}

/// Kind of an allowed difference.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Order of the members.
    Order,
    /// A member that is `false` may be missing.
    No,
    /// Any value.
    Own,
    /// Any value if the server omits the member.
    Added,
}

impl Edits {
    pub(crate) fn read() -> Self {
        Self(serde_json::from_str(include_str!("edits.json")).unwrap())
    }

    pub(crate) fn all(&self) -> &[KnownEdit] {
        &self.0
    }

    /// Both messages without the allowed differences; adds the indexes of the used edits to `used`.
    pub(super) fn made(
        &self,
        what: &str,
        era: Era,
        (direct, through): (&Raw, &Raw),
        used: &mut BTreeSet<usize>,
    ) -> (Raw, Raw) {
        let (mut direct, mut through) = (direct.clone(), through.clone());
        for (at, edit) in self.0.iter().enumerate().filter(|(_, edit)| edit.concerns(what, era)) {
            if edit.kind == Kind::Added && edit.is_said_in(&direct) {
                continue;
            }
            let before = direct.as_bytes() == through.as_bytes();
            let (left, right) = (edit.made(&direct, &edit.place), edit.made(&through, &edit.place));
            let changed = left.as_bytes() != direct.as_bytes() || right.as_bytes() != through.as_bytes();
            if changed && !before {
                used.insert(at);
            }
            (direct, through) = (left, right);
        }
        (direct, through)
    }
}

impl KnownEdit {
    fn concerns(&self, what: &str, era: Era) -> bool {
        let year = if era == Era::Legacy { "2025" } else { "2026" };
        let meant = match self.about.as_str() {
            "lists" => what.ends_with("/list"),
            "results" => what.contains('/'),
            about => about == what,
        };
        meant && (self.era == "both" || self.era == year)
    }

    fn is_said_in(&self, value: &Raw) -> bool {
        let mut said = Some(value.clone());
        for member in &self.place {
            said = said.and_then(|value| value.get(member));
        }
        said.is_some()
    }

    /// The value without the member at `place`, and without objects that become empty.
    fn made(&self, value: &Raw, place: &[String]) -> Raw {
        match (place, self.kind) {
            ([], Kind::Order) => sorted(value),
            ([], Kind::No | Kind::Own | Kind::Added) => value.clone(),
            ([last], Kind::Own | Kind::Added) => splice::edited(value, &[Edit::Remove(last)]),
            ([last], Kind::No) => match value.get(last).and_then(|said| said.as_bool()) {
                Some(false) => splice::edited(value, &[Edit::Remove(last)]),
                _ => value.clone(),
            },
            ([member, rest @ ..], _) => match value.get(member).map(|inner| self.made(&inner, rest)) {
                Some(inner) if inner.as_bytes() == b"{}" => splice::edited(value, &[Edit::Remove(member)]),
                Some(inner) => splice::edited(value, &[Edit::Set(member, inner)]),
                None => value.clone(),
            },
        }
    }
}

fn sorted(object: &Raw) -> Raw {
    let mut members = object.members();
    members.sort_by(|one, other| one.key.cmp(&other.key));
    splice::object(members.iter().map(|member| (&*member.key, &member.value)))
}
