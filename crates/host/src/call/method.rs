//! Spelling of methods. A server may read `Tools/Call` or `tools/call ` as `tools/call`; a request whose method we read
//! otherwise would pass filters and rules that speak of tools. Such a request is refused.

/// How a method relates to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodSpelling {
    /// A method of the protocol, as the protocol spells it.
    Protocol,
    /// A method of the protocol in another spelling: case, separators.
    Disguised,
    /// A method with a `%` or characters other than visible ASCII, which servers may decode, fold or cut.
    Unreadable,
    /// A method that the protocol does not define.
    Other,
}

/// Methods of the protocol in all revisions, except those of [`AREAS`].
const METHODS: [&str; 16] = [
    "completion/complete",
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "tools/call",
    "tools/list",
];

/// Areas whose methods all belong to the protocol.
const AREAS: [&str; 4] = ["notifications", "server", "subscriptions", "tasks"];

impl MethodSpelling {
    /// The spelling of a method.
    pub fn of(method: &str) -> Self {
        let in_area = |area: &&str| method.strip_prefix(*area).is_some_and(|rest| rest.starts_with('/'));
        if METHODS.contains(&method) || AREAS.iter().any(in_area) && is_plain(method) {
            return Self::Protocol;
        }
        let is_readable = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
        if method.is_empty() || !method.bytes().all(is_readable) {
            return Self::Unreadable;
        }
        let all = letters(method);
        let first = first_word(method);
        let has_more = first.len() < all.len();
        if METHODS.iter().any(|known| letters(known) == all) || has_more && AREAS.contains(&first.as_str()) {
            return Self::Disguised;
        }
        Self::Other
    }

    /// Whether a gateway may forward the method unread, if the server's entry names it.
    pub fn is_extension(self) -> bool {
        self == Self::Other
    }
}

/// Whether a method has the characters that methods of the protocol have.
fn is_plain(method: &str) -> bool {
    method.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_'))
}

/// The letters and digits of a method in lower case.
fn letters(method: &str) -> String {
    method.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The first word of a method in lower case, without leading separators.
fn first_word(method: &str) -> String {
    let mut words = method.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.find(|word| !word.is_empty()).unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::MethodSpelling::{self, Disguised, Other, Protocol, Unreadable};

    #[test]
    fn another_spelling_of_a_method_of_the_protocol_is_recognised() {
        for (method, spelling) in [
            ("tools/call", Protocol),
            ("initialize", Protocol),
            ("notifications/progress", Protocol),
            ("tasks/get", Protocol),
            ("Tools/Call", Disguised),
            ("TOOLS/CALL", Disguised),
            ("tools/Call", Disguised),
            ("tools/call/", Disguised),
            ("/tools/call", Disguised),
            ("tools//call", Disguised),
            ("tools.call", Disguised),
            ("tools\\call", Disguised),
            ("tools%2Fcall", Unreadable),
            ("tools%252fcall", Unreadable),
            ("tools/%63all", Unreadable),
            ("tools/call%00", Unreadable),
            ("tools/./call", Disguised),
            ("tools_call", Disguised),
            ("Notifications/cancelled", Disguised),
            ("tasks/get%20", Unreadable),
            ("Server/Discover", Disguised),
            ("/subscriptions/listen", Disguised),
            (" tools/call", Unreadable),
            ("tools/call\n", Unreadable),
            ("tools/call\0", Unreadable),
            ("tools/call\u{a0}", Unreadable),
            ("tool\u{17f}/call", Unreadable),
            ("\u{ff54}ools/call", Unreadable),
            ("tools/ca\u{200b}ll", Unreadable),
            ("", Unreadable),
            ("acme/search", Other),
            ("acme/tools/call", Other),
            ("serverless/deploy", Other),
            ("ping2", Other),
            ("x/100%", Unreadable),
        ] {
            assert_eq!(MethodSpelling::of(method), spelling, "{method:?}");
        }
    }
}
