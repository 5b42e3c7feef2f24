//! What a listener wants to hear of, as `subscriptions/listen` and its acknowledgement spell it.

use std::borrow::Cow;

use super::Wanted;
use crate::json::Raw;

/// The three lists, by the words of the wire.
const TOOLS: &str = "toolsListChanged";
const PROMPTS: &str = "promptsListChanged";
const RESOURCES: &str = "resourcesListChanged";
/// Resources by URI.
const URIS: &str = "resourceSubscriptions";

/// Tasks by name.
const TASKS: &str = "taskIds";

/// The tasks that params name.
pub(crate) fn tasks(params: Option<&Raw>) -> Vec<String> {
    let named = params.and_then(|params| params.get("notifications")).and_then(|filter| filter.get(TASKS));
    let named = named.map(|named| named.elements()).unwrap_or_default();
    named.iter().filter_map(|id| id.as_str().map(Cow::into_owned)).collect()
}

/// The params that hold the filter.
pub(crate) fn written(wanted: &Wanted) -> Raw {
    written_with(wanted, &[])
}

/// As [`written`], with tasks.
pub(crate) fn written_with(wanted: &Wanted, tasks: &[String]) -> Raw {
    let lists = [(TOOLS, wanted.tools), (PROMPTS, wanted.prompts), (RESOURCES, wanted.resources)];
    let lists = lists.into_iter().filter(|(_, on)| *on).map(|(key, on)| (key.to_owned(), on.into()));
    let mut filter: serde_json::Map<String, serde_json::Value> = lists.collect();
    if !wanted.uris.is_empty() {
        filter.insert(URIS.to_owned(), wanted.uris.clone().into());
    }
    if !tasks.is_empty() {
        filter.insert(TASKS.to_owned(), tasks.into());
    }
    Raw::of(&serde_json::json!({ "notifications": filter }))
}

/// The filter that params hold.
pub(crate) fn read(params: Option<&Raw>) -> Wanted {
    let filter = params.and_then(|params| params.get("notifications")).unwrap_or_else(Raw::empty_object);
    let [tools, prompts, resources, uris] = filter.fields([TOOLS, PROMPTS, RESOURCES, URIS]);
    let on = |flag: Option<Raw>| flag.and_then(|flag| flag.as_bool()).unwrap_or_default();
    let uris = uris.map(|list| list.elements()).unwrap_or_default();
    Wanted {
        tools: on(tools),
        prompts: on(prompts),
        resources: on(resources),
        uris: uris.iter().filter_map(|uri| uri.as_str().map(Cow::into_owned)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{read, written};
    use crate::notice::Wanted;

    #[test]
    fn a_filter_reads_as_it_was_written() {
        let wanted = Wanted { tools: true, uris: vec!["file:///a".to_owned()], ..Wanted::default() };
        let params = written(&wanted);
        assert_eq!(
            params.to_string(),
            r#"{"notifications":{"resourceSubscriptions":["file:///a"],"toolsListChanged":true}}"#
        );
        assert_eq!(read(Some(&params)), wanted);
        assert_eq!(read(None), Wanted::default());
    }
}
