//! The annotations of a tool as words for the model. They are the server's and prove nothing; policy reads them itself.

use toolway_wire::json::Raw;

/// What the server says about a tool; `None` if it says nothing. Only hints that are given count, not the protocol's
/// defaults, which would stand at almost every tool. Hints that contradict each other count as destructive, as in policy.
pub(crate) fn words(annotations: Option<&Raw>) -> Option<String> {
    let hint = |key| annotations.and_then(|annotations| annotations.get(key)).and_then(|hint| hint.as_bool());
    let reads = hint("readOnlyHint") == Some(true);
    let effect = match hint("destructiveHint") {
        Some(true) => Some("may delete data"),
        _ if reads => Some("only reads"),
        Some(false) => Some("deletes no data"),
        None => None,
    };
    let reach =
        hint("openWorldHint").map(|open| if open { "reaches other systems" } else { "reaches no other systems" });
    let repeat = hint("idempotentHint").filter(|safe| *safe && !reads).map(|_| "safe to repeat");
    let given: Vec<&str> = [effect, reach, repeat].into_iter().flatten().collect();
    (!given.is_empty()).then(|| format!("Hints of the server: {}.", given.join("; ")))
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::words;

    #[test]
    fn given_hints_are_words_and_defaults_are_not() {
        for (annotations, expected) in [
            (
                r#"{"destructiveHint":true,"openWorldHint":true,"idempotentHint":true}"#,
                Some("Hints of the server: may delete data; reaches other systems; safe to repeat."),
            ),
            (
                r#"{"readOnlyHint":true,"openWorldHint":false}"#,
                Some("Hints of the server: only reads; reaches no other systems."),
            ),
            (r#"{"readOnlyHint":true,"destructiveHint":true}"#, Some("Hints of the server: may delete data.")),
            (r#"{"destructiveHint":false}"#, Some("Hints of the server: deletes no data.")),
            (r#"{"title":"T","idempotentHint":false}"#, None),
        ] {
            assert_eq!(words(Some(&Raw::parse(annotations).unwrap())).as_deref(), expected, "{annotations}");
        }
        assert_eq!(words(None), None);
    }
}
