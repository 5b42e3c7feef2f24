//! Everything that policy looks at when it decides about one request.

use toolway_config::{Pattern, Trust, TrustLists};
use toolway_wire::json::Raw;

use super::{Reach, Subject, Surface};
use crate::call::{CallKind, Caller};

/// One request, as policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInput<'a> {
    /// Identity on whose behalf the call is made.
    pub caller: &'a Caller,
    /// Surface that the call comes from.
    pub surface: Surface,
    /// Server and item.
    pub subject: &'a Subject,
    /// Trust of the server.
    pub trust: Trust,
    /// What the server's entry says about single tools.
    pub lists: &'a TrustLists,
    /// Annotations of the item, with the protocol's defaults.
    pub annotations: Annotations,
    /// Arguments as they will be sent: of a tool or prompt its `arguments`, of a method its params without `_meta`.
    pub arguments: Option<&'a Raw>,
    /// What is known about where the request goes.
    pub reach: Reach<'a>,
}

/// Annotations of a tool. Servers set them, so they count only as far as the server is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotations {
    /// `readOnlyHint`, default `false`, and `false` for a tool that is annotated destructive as well.
    pub read_only: bool,
    /// `destructiveHint`, default `true`, and `false` for a read-only tool that does not say otherwise.
    pub destructive: bool,
    /// `idempotentHint`, default `false`, and `true` for a tool that only reads.
    pub idempotent: bool,
    /// `destructiveHint` is given and `true`.
    pub says_destructive: bool,
    /// `openWorldHint`, default `true`.
    pub open_world: bool,
    /// `openWorldHint` is given and `true`; almost every tool has the default, which is worth no warning.
    pub says_open_world: bool,
}

/// Methods that change nothing at a server.
const READING_METHODS: &[&str] = &[
    "ping",
    "server/discover",
    "completion/complete",
    "logging/setLevel",
    "tools/list",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/directory/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "skills/get",
    "skills/list",
    "tasks/get",
    "tasks/list",
    "tasks/result",
];

impl PolicyInput<'_> {
    /// Whether the request passes `writes`: the server or the tool is trusted with writes, or the server is trusted to read
    /// and the tool only reads.
    pub(super) fn passes_writes(&self) -> bool {
        let reads = self.annotations.read_only && !self.annotations.destructive;
        self.passes_unseen() || (self.trust >= Trust::Read && reads)
    }

    /// Whether the request passes `writes` whatever it reaches.
    pub(super) fn passes_unseen(&self) -> bool {
        self.trust == Trust::Full || self.is_trusted_tool()
    }

    /// Whether it is a call of one of `trustedTools`.
    pub(super) fn is_trusted_tool(&self) -> bool {
        self.is_tool_of(&self.lists.trusted_tools)
    }

    /// Whether it is a call of one of `requireConfirmation`.
    pub(super) fn requires_confirmation(&self) -> bool {
        self.is_tool_of(&self.lists.require_confirmation)
    }

    fn is_tool_of(&self, patterns: &[Pattern]) -> bool {
        let Subject { kind, raw_name, .. } = self.subject;
        *kind == CallKind::Tool && patterns.iter().any(|pattern| pattern.matches(raw_name))
    }

    /// The annotations as far as the server is trusted: those of a tool of an untrusted server are the protocol's defaults.
    pub(super) fn believed_annotations(&self) -> Annotations {
        self.annotations.believed(self.trust, self.subject.kind)
    }
}

impl Annotations {
    /// Annotations of a tool's definition.
    pub fn of_tool(annotations: Option<&Raw>) -> Self {
        let hint = |key| annotations.and_then(|annotations| annotations.get(key)).and_then(|hint| hint.as_bool());
        // Hints that contradict each other count as destructive.
        let read_only = hint("readOnlyHint") == Some(true) && hint("destructiveHint") != Some(true);
        Self {
            read_only,
            destructive: hint("destructiveHint").unwrap_or(!read_only),
            idempotent: read_only || hint("idempotentHint") == Some(true),
            says_destructive: hint("destructiveHint") == Some(true),
            open_world: hint("openWorldHint").unwrap_or(true),
            says_open_world: hint("openWorldHint") == Some(true),
        }
    }

    /// These annotations as far as their server is trusted.
    pub(super) fn believed(self, trust: Trust, kind: CallKind) -> Self {
        match (trust, kind) {
            (Trust::Untrusted, CallKind::Tool) => Self::of_tool(None),
            _ => self,
        }
    }

    /// Annotations of an item that has no definition: prompts, resources and the reading methods of the protocol only read.
    pub fn of_kind(kind: CallKind, raw_name: &str) -> Self {
        let read_only = match kind {
            CallKind::Prompt | CallKind::Resource => true,
            CallKind::Tool => false,
            CallKind::Method => READING_METHODS.contains(&raw_name),
        };
        Self {
            read_only,
            destructive: !read_only,
            idempotent: read_only,
            says_destructive: false,
            open_world: true,
            says_open_world: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::Annotations;

    #[test]
    fn missing_hints_have_the_defaults_of_the_protocol() {
        let of = |text: &'static str| Annotations::of_tool(Some(&Raw::parse(text).unwrap()));
        let unknown = Annotations {
            read_only: false,
            destructive: true,
            idempotent: false,
            says_destructive: false,
            open_world: true,
            says_open_world: false,
        };
        assert_eq!(Annotations::of_tool(None), unknown);
        assert_eq!(of(r#"{"title":"x"}"#), unknown);
        assert_eq!(of(r#"{"readOnlyHint":"yes"}"#), unknown);
        let reading = of(r#"{"readOnlyHint":true}"#);
        assert_eq!((reading.read_only, reading.destructive), (true, false));
        let contradicting = of(r#"{"readOnlyHint":true,"destructiveHint":true}"#);
        assert_eq!((contradicting.read_only, contradicting.destructive), (false, true));
        assert!(!of(r#"{"destructiveHint":false}"#).destructive);
        assert!(of(r#"{"openWorldHint":true}"#).says_open_world);
        assert!(reading.idempotent && of(r#"{"idempotentHint":true}"#).idempotent && !contradicting.idempotent);
    }
}
