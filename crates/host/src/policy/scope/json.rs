//! The form of a scope in the store, for scripts and for the console.
//!
//! ```json
//! {"arguments": {"name": {"same": "shopping"}, "path": {"folder": "/home/ada"}, "url": {"host": "a.example"}, "text": "any"}}
//! ```
//!
//! Also `"any"`, `{"sha256": "…"}`, `{"hosts": ["a.example"]}` and `"any-host"`.

use toolway_wire::json::{JsonKind, Raw};

use super::{ArgumentScope, SameValue, Scope, canonical};

impl Scope {
    /// Writes it; equal scopes have equal texts.
    pub fn to_json(&self) -> String {
        match self {
            Self::Any => r#""any""#.to_owned(),
            Self::AnyHost => r#""any-host""#.to_owned(),
            Self::Whole(digest) => format!(r#"{{"sha256":{}}}"#, Raw::of(digest)),
            Self::Hosts(hosts) => format!(r#"{{"hosts":{}}}"#, Raw::of(hosts)),
            Self::Arguments(scopes) => {
                let members = scopes.iter().map(|(name, scope)| format!("{}:{}", Raw::of(name), scope.to_json()));
                format!(r#"{{"arguments":{{{}}}}}"#, members.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// Reads what [`Scope::to_json`] writes; `None` if it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of(&Raw::parse(text.to_owned()).ok()?)
    }

    /// Reads a JSON value; `None` if it is not a scope.
    pub fn of(value: &Raw) -> Option<Self> {
        match value.as_str().as_deref() {
            Some("any") => return Some(Self::Any),
            Some("any-host") => return Some(Self::AnyHost),
            Some(_) => return None,
            None => {}
        }
        let member = only_member(value)?;
        match member.key.as_str() {
            "sha256" => Some(Self::Whole(member.value.as_str()?.into_owned())),
            "hosts" => {
                let hosts = member.value.elements().into_iter().map(|host| Some(host.as_str()?.into_owned()));
                hosts.collect::<Option<_>>().map(Self::Hosts)
            }
            "arguments" if member.value.kind() == JsonKind::Object => {
                let members = super::named(&member.value)?.into_iter();
                let scopes = members.map(|member| Some((member.key, ArgumentScope::of(&member.value)?)));
                scopes.collect::<Option<_>>().map(Self::Arguments)
            }
            _ => None,
        }
    }
}

impl ArgumentScope {
    /// Writes it.
    pub fn to_json(&self) -> String {
        match self {
            Self::Any => r#""any""#.to_owned(),
            Self::Same(SameValue::Json(json)) => format!(r#"{{"same":{json}}}"#),
            Self::Same(SameValue::Digest(digest)) => format!(r#"{{"sha256":{}}}"#, Raw::of(digest)),
            Self::Folder(folder) => format!(r#"{{"folder":{}}}"#, Raw::of(folder)),
            Self::Host(host) => format!(r#"{{"host":{}}}"#, Raw::of(host)),
        }
    }

    fn of(value: &Raw) -> Option<Self> {
        if value.as_str().as_deref() == Some("any") {
            return Some(Self::Any);
        }
        let member = only_member(value)?;
        let text = || member.value.as_str().map(std::borrow::Cow::into_owned);
        match member.key.as_str() {
            "same" => Some(Self::Same(SameValue::Json(canonical::text(&member.value)))),
            "sha256" => text().map(|digest| Self::Same(SameValue::Digest(digest))),
            "folder" => text().map(Self::Folder),
            "host" => text().map(Self::Host),
            _ => None,
        }
    }
}

fn only_member(value: &Raw) -> Option<toolway_wire::json::Member> {
    let mut members = if value.kind() == JsonKind::Object { value.members() } else { return None };
    if members.len() == 1 { members.pop() } else { None }
}
