//! Subscription filters as `subscriptions/listen` and its acknowledgement encode them.

use std::borrow::Cow;

use super::SubscriptionFilter;
use crate::json::Raw;

/// Member names of the list filters.
const TOOLS: &str = "toolsListChanged";
const PROMPTS: &str = "promptsListChanged";
const RESOURCES: &str = "resourcesListChanged";
/// Member name of the resource URIs.
const URIS: &str = "resourceSubscriptions";

/// Member name of the task ids.
const TASKS: &str = "taskIds";

/// Task ids in the params.
pub(crate) fn tasks(params: Option<&Raw>) -> Vec<String> {
    let named = params.and_then(|params| params.get("notifications")).and_then(|filter| filter.get(TASKS));
    let named = named.map(|named| named.elements()).unwrap_or_default();
    named.iter().filter_map(|id| id.as_str().map(Cow::into_owned)).collect()
}

/// Encodes the filter as params.
pub(crate) fn encode(wanted: &SubscriptionFilter) -> Raw {
    encode_with_tasks(wanted, &[])
}

/// As [`encode`], with task ids.
pub(crate) fn encode_with_tasks(wanted: &SubscriptionFilter, tasks: &[String]) -> Raw {
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

/// Parses the filter of params.
pub(crate) fn read(params: Option<&Raw>) -> SubscriptionFilter {
    let filter = params.and_then(|params| params.get("notifications")).unwrap_or_else(Raw::empty_object);
    let [tools, prompts, resources, uris] = filter.fields([TOOLS, PROMPTS, RESOURCES, URIS]);
    let on = |flag: Option<Raw>| flag.and_then(|flag| flag.as_bool()).unwrap_or_default();
    let uris = uris.map(|list| list.elements()).unwrap_or_default();
    SubscriptionFilter {
        tools: on(tools),
        prompts: on(prompts),
        resources: on(resources),
        uris: uris.iter().filter_map(|uri| uri.as_str().map(Cow::into_owned)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{encode, read};
    use crate::notice::SubscriptionFilter;

    #[test]
    fn filter_round_trips() {
        let wanted =
            SubscriptionFilter { tools: true, uris: vec!["file:///a".to_owned()], ..SubscriptionFilter::default() };
        let params = encode(&wanted);
        assert_eq!(
            params.to_string(),
            r#"{"notifications":{"resourceSubscriptions":["file:///a"],"toolsListChanged":true}}"#
        );
        assert_eq!(read(Some(&params)), wanted);
        assert_eq!(read(None), SubscriptionFilter::default());
    }
}
