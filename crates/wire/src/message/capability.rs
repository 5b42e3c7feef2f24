//! Views of server and client capabilities.

use super::splice::{self, Edit};
use crate::json::{JsonKind, Raw};

/// Identifier of the tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Capabilities of a server.
#[derive(Clone, Debug)]
pub struct ServerCapabilities(pub Raw);

/// Capabilities of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCapabilities(pub Raw);

impl ServerCapabilities {
    /// Whether the server declares this capability.
    pub fn has(&self, name: &str) -> bool {
        declared(&self.0, name).is_some()
    }

    /// Whether the server declares this flag within a capability, e.g. `resources` and `subscribe`.
    pub fn flag(&self, name: &str, flag: &str) -> bool {
        declared(&self.0, name)
            .and_then(|capability| capability.get(flag))
            .and_then(|flag| flag.as_bool())
            .unwrap_or_default()
    }

    /// Whether the server declares this extension.
    pub fn extension(&self, id: &str) -> bool {
        declared(&self.0, "extensions").is_some_and(|extensions| extensions.get(id).is_some())
    }

    /// Whether the server supports `tasks/list` (2025-11-25).
    pub fn lists_tasks(&self) -> bool {
        declared(&self.0, "tasks").is_some_and(|tasks| tasks.get("list").is_some())
    }

    /// Whether the server runs tool calls as tasks on request (2025-11-25).
    pub fn makes_tasks_of_calls(&self) -> bool {
        // FastMCP 2.14 declares it where experiments are.
        let early = || declared(&self.0, "experimental").and_then(|early| early.get("tasks"));
        let requests = declared(&self.0, "tasks").or_else(early).and_then(|tasks| tasks.get("requests"));
        requests.and_then(|requests| requests.get("tools")).is_some_and(|tools| tools.get("call").is_some())
    }
}

impl ClientCapabilities {
    /// No capabilities.
    pub fn none() -> Self {
        Self(Raw::empty_object())
    }

    /// The capability that the client lacks for this server request, as the object to declare; `None` if it lacks nothing.
    pub fn lacks(&self, method: &str, params: Option<&Raw>) -> Option<Raw> {
        match method {
            "elicitation/create" => self.lacks_elicitation(params),
            "sampling/createMessage" => self.lacks_sampling(params),
            "roots/list" => declared(&self.0, "roots").is_none().then(|| needed(r#"{"roots":{}}"#)),
            _ => Some(Raw::empty_object()),
        }
    }

    /// Whether this extension is declared.
    pub fn extension(&self, id: &str) -> bool {
        declared(&self.0, "extensions").is_some_and(|extensions| extensions.get(id).is_some())
    }

    /// The same capabilities with this extension.
    #[must_use]
    pub fn with_extension(&self, id: &str) -> Self {
        if self.extension(id) {
            return self.clone();
        }
        let extensions = declared(&self.0, "extensions").unwrap_or_else(Raw::empty_object);
        let extensions = splice::edited(&extensions, &[Edit::Set(id, Raw::empty_object())]);
        Self(splice::edited(&self.0, &[Edit::Set("extensions", extensions)]))
    }

    /// The same capabilities without this extension.
    #[must_use]
    pub fn without_extension(&self, id: &str) -> Self {
        let Some(extensions) = declared(&self.0, "extensions").filter(|_| self.extension(id)) else {
            return self.clone();
        };
        let rest = splice::edited(&extensions, &[Edit::Remove(id)]);
        let edit = if rest.members().is_empty() { Edit::Remove("extensions") } else { Edit::Set("extensions", rest) };
        Self(splice::edited(&self.0, &[edit]))
    }

    /// The same capabilities without the announcement of changed roots, which stateless revisions do not have.
    #[must_use]
    pub(crate) fn without_root_changes(&self) -> Self {
        let Some(roots) = self.0.get("roots").filter(|roots| roots.get("listChanged").is_some()) else {
            return self.clone();
        };
        let rest = splice::edited(&roots, &[Edit::Remove("listChanged")]);
        Self(splice::edited(&self.0, &[Edit::Set("roots", rest)]))
    }

    fn lacks_elicitation(&self, params: Option<&Raw>) -> Option<Raw> {
        let mode = params.and_then(|params| params.get("mode"));
        let url = mode.as_ref().and_then(Raw::as_str).is_some_and(|mode| mode == "url");
        let elicitation = declared(&self.0, "elicitation");
        match (elicitation, url) {
            (Some(modes), true) if modes.get("url").is_some() => None,
            // An empty declaration means forms; naming only `url` excludes them.
            (Some(modes), false) if modes.get("form").is_some() || modes.get("url").is_none() => None,
            (_, true) => Some(needed(r#"{"elicitation":{"url":{}}}"#)),
            (_, false) => Some(needed(r#"{"elicitation":{"form":{}}}"#)),
        }
    }

    fn lacks_sampling(&self, params: Option<&Raw>) -> Option<Raw> {
        let with_tools =
            params.is_some_and(|params| params.get("tools").is_some() || params.get("toolChoice").is_some());
        match declared(&self.0, "sampling") {
            Some(sampling) if !with_tools || sampling.get("tools").is_some() => None,
            _ if with_tools => Some(needed(r#"{"sampling":{"tools":{}}}"#)),
            _ => Some(needed(r#"{"sampling":{}}"#)),
        }
    }
}

fn declared(capabilities: &Raw, name: &str) -> Option<Raw> {
    capabilities.get(name).filter(|value| value.kind() != JsonKind::Null && value.as_bool() != Some(false))
}

fn needed(text: &'static str) -> Raw {
    Raw::checked(bytes::Bytes::from_static(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{ClientCapabilities, ServerCapabilities};
    use crate::json::Raw;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn tasks_of_calls_are_found_among_experiments_too() {
        let makes = |text: &str| ServerCapabilities(raw(text)).makes_tasks_of_calls();
        assert!(makes(r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#));
        assert!(makes(r#"{"experimental":{"tasks":{"requests":{"tools":{"call":{}}}}}}"#));
        assert!(!makes(r#"{"tasks":{},"experimental":{"tasks":{"requests":{"tools":{"call":{}}}}}}"#));
    }

    #[test]
    fn empty_elicitation_means_forms_only() {
        let client = ClientCapabilities(raw(r#"{"elicitation":{}}"#));
        let url = raw(r#"{"mode":"url","url":"https://x.example"}"#);
        assert!(client.lacks("elicitation/create", None).is_none());
        assert_eq!(
            client.lacks("elicitation/create", Some(&url)).unwrap().to_string(),
            r#"{"elicitation":{"url":{}}}"#
        );
        let client = ClientCapabilities(raw(r#"{"elicitation":{"url":{}}}"#));
        assert!(client.lacks("elicitation/create", None).is_some());
        assert!(client.lacks("elicitation/create", Some(&url)).is_none());
    }

    #[test]
    fn stateless_revisions_have_no_announcement_of_changed_roots() {
        let without = |text: &str| ClientCapabilities(raw(text)).without_root_changes().0.to_string();
        assert_eq!(
            without(r#"{"roots":{"listChanged":true,"x":1},"sampling":{}}"#),
            r#"{"roots":{"x":1},"sampling":{}}"#
        );
        assert_eq!(without(r#"{"roots":{}}"#), r#"{"roots":{}}"#);
        assert_eq!(without("{}"), "{}");
    }

    #[test]
    fn sampling_with_tools_needs_its_own_declaration() {
        let client = ClientCapabilities(raw(r#"{"sampling":{}}"#));
        assert!(client.lacks("sampling/createMessage", None).is_none());
        let with_tools = raw(r#"{"tools":[]}"#);
        for client in [client.clone(), ClientCapabilities::none()] {
            let lacking = client.lacks("sampling/createMessage", Some(&with_tools)).unwrap();
            assert_eq!(lacking.to_string(), r#"{"sampling":{"tools":{}}}"#, "the complete object to declare");
        }
        assert!(client.lacks("roots/list", None).is_some());
        assert!(client.lacks("anything/else", None).is_some());
    }

    #[test]
    fn adding_and_removing_an_extension_changes_nothing_else() {
        let client = ClientCapabilities(raw(r#"{"sampling":{}}"#));
        let with = client.with_extension("a/b");
        assert_eq!(with.0.to_string(), r#"{"sampling":{},"extensions":{"a/b":{}}}"#);
        assert!(with.extension("a/b") && !client.extension("a/b"));
        assert_eq!(with.without_extension("a/b"), client);
        let two = with.with_extension("c/d").without_extension("a/b");
        assert_eq!(two.0.to_string(), r#"{"sampling":{},"extensions":{"c/d":{}}}"#);
    }

    #[test]
    fn flags_are_read_leniently() {
        let server =
            ServerCapabilities(raw(r#"{"resources":{"subscribe":true},"tools":null,"extensions":{"a/b":{}}}"#));
        assert!(server.flag("resources", "subscribe"));
        assert!(!server.flag("resources", "listChanged"));
        assert!(!server.has("tools"));
        assert!(server.extension("a/b"));
    }
}
