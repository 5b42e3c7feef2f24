//! What an answer of `toolway inbox answer` covers: the proposal of the item, with the changes of `--cover`.

use serde_json::Value;
use toolway_host::policy::Scope;
use toolway_wire::json::Raw;

use crate::report::Report;

/// The scope of an answer; `None` if nothing is changed about the proposal for `term`.
pub(super) fn chosen(proposal: &Value, term: &str, covers: &[String]) -> Result<Option<Scope>, Report> {
    if covers.is_empty() {
        return Ok(None);
    }
    if covers == ["*=any"] {
        return Ok(Some(Scope::Any));
    }
    let mut scopes = match &proposal[term]["scope"] {
        Value::Object(scope) => scope.get("arguments").and_then(Value::as_object).cloned().ok_or_else(unreadable)?,
        Value::String(any) if any == "any" => {
            arguments(proposal).map(|argument| (name(argument), Value::from("any"))).collect()
        }
        _ => return Err(unreadable()),
    };
    for cover in covers {
        let unknown = |what: &str| Report::usage("arguments", format!("`--cover {cover}`: {what}"));
        let (wanted, word) = cover.rsplit_once('=').ok_or_else(|| unknown("expected `ARGUMENT=WORD`"))?;
        let argument = arguments(proposal).find(|argument| name(argument) == wanted).ok_or_else(|| {
            let names: Vec<_> = arguments(proposal).map(|argument| format!("`{}`", name(argument))).collect();
            unknown("the call has no such argument").hint(format!("its arguments: {}", names.join(", ")))
        })?;
        let options = argument["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let option = options.iter().find(|option| self::word(&option["scope"]) == word).ok_or_else(|| {
            let words: Vec<_> = options.iter().map(|option| format!("`{}`", self::word(&option["scope"]))).collect();
            unknown("this cannot be covered").hint(format!("choose one of {}", words.join(", ")))
        })?;
        scopes.insert(wanted.to_owned(), option["scope"].clone());
    }
    let scope = serde_json::json!({ "arguments": scopes });
    // What cannot be read must not become the proposal, which may be wider.
    Scope::of(&Raw::of(&scope)).ok_or_else(unreadable).map(Some)
}

/// The proposal has values that JSON of this program cannot contain, such as `1e999`, or is about hosts.
pub(super) fn unreadable() -> Report {
    Report::usage("arguments", "what this approval covers cannot be changed here")
        .hint("approve it once, or change it in the console or at the terminal of the call")
}

fn arguments(proposal: &Value) -> impl Iterator<Item = &Value> {
    proposal["arguments"].as_array().into_iter().flatten()
}

fn name(argument: &Value) -> String {
    argument["name"].as_str().unwrap_or_default().to_owned()
}

/// The word of an option on the command line.
fn word(scope: &Value) -> &str {
    match scope {
        Value::String(any) => any,
        Value::Object(scope) if scope.contains_key("folder") => "folder",
        Value::Object(scope) if scope.contains_key("host") => "host",
        _ => "same",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::chosen;

    #[test]
    fn single_arguments_are_changed_by_name() {
        let option = |scope: serde_json::Value| json!({ "covers": "", "scope": scope });
        let proposal = json!({
            "always": { "covers": "", "scope": { "arguments": { "path": { "same": "/home/ada/a" }, "n": { "same": 1 } } } },
            "conversation": { "covers": "any arguments", "scope": "any" },
            "arguments": [
                { "name": "path", "options": [
                    option(json!({ "same": "/home/ada/a" })), option(json!({ "folder": "/home/ada" })), option(json!("any")),
                ] },
                { "name": "n", "options": [option(json!({ "same": 1 })), option(json!("any"))] },
            ],
        });
        let covers = |term: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            chosen(&proposal, term, &words)
                .map(|scope| scope.map(|scope| scope.to_string()))
                .map_err(|report| report.message)
        };
        assert_eq!(covers("always", &[]), Ok(None));
        assert_eq!(covers("always", &["path=folder"]), Ok(Some(r#"n = 1, path in "/home/ada/""#.to_owned())));
        assert_eq!(covers("conversation", &["n=same"]), Ok(Some("n = 1, any path".to_owned())));
        assert_eq!(covers("always", &["*=any"]), Ok(Some("any arguments".to_owned())));
        for (words, problem) in [
            (["x=any"], "the call has no such argument"),
            (["n=folder"], "this cannot be covered"),
            (["n"], "expected `ARGUMENT=WORD`"),
        ] {
            assert!(covers("always", &words).unwrap_err().ends_with(problem), "{words:?}");
        }
    }

    /// A proposal with a number such as `1e999` has `null` in its place.
    #[test]
    fn what_cannot_be_read_is_not_taken_for_any_or_for_the_proposal() {
        let arguments = json!([
            { "name": "n", "options": [{ "covers": "the same", "scope": null }, { "covers": "any", "scope": "any" }] },
            { "name": "text", "options": [{ "covers": "the same", "scope": { "same": "x" } }] },
        ]);
        for scope in [json!(null), json!("any"), json!({ "arguments": { "n": null, "text": { "same": "x" } } })] {
            let proposal = json!({ "always": { "covers": "", "scope": scope }, "arguments": arguments });
            let problem = chosen(&proposal, "always", &["n=same".to_owned()]).unwrap_err().message;
            assert_eq!(problem, "what this approval covers cannot be changed here", "{scope}");
        }
        let proposal = json!({ "always": { "covers": "", "scope": null }, "arguments": arguments });
        assert!(chosen(&proposal, "always", &["text=same".to_owned()]).is_err(), "`n` must not become any");
        let hosts = json!({ "always": { "covers": "", "scope": { "hosts": ["a.example"] } }, "arguments": [] });
        assert!(chosen(&hosts, "always", &["n=any".to_owned()]).is_err());
    }
}
