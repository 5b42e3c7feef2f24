//! Maps errors of servers to what clients of each era may receive: none that would mislead a client about this hop, and
//! none that its revision does not define.

use serde_json::json;

use super::tasks;
use crate::{
    json::Raw,
    message::{ClientCapabilities, RpcError},
};

/// Range reserved by the stateless revision; only the codes it defines may occur.
const RESERVED: std::ops::RangeInclusive<i64> = -32099..=-32020;
/// Implementation-defined codes.
const IMPLEMENTATION: std::ops::RangeInclusive<i64> = -32019..=-32000;

/// Error for a client without a session.
pub(super) fn to_stateless(error: RpcError, uri: Option<&Raw>, declared: &ClientCapabilities) -> RpcError {
    match error.code() {
        RpcError::RESOURCE_NOT_FOUND => {
            let uri = uri.and_then(Raw::as_str);
            RpcError::with_data(RpcError::INVALID_PARAMS, &error.message(), json!({ "uri": uri }))
        }
        RpcError::HEADER_MISMATCH | RpcError::UNSUPPORTED_VERSION => between(&error),
        // If the client declared the capability, the client is not the one that lacks it.
        RpcError::MISSING_CAPABILITY if concerns(&error, declared) => error,
        code if RESERVED.contains(&code) || IMPLEMENTATION.contains(&code) => upstream(&error),
        _ => error,
    }
}

/// Error for a client with a session.
pub(super) fn to_stateful(error: RpcError) -> RpcError {
    match error.code() {
        RpcError::HEADER_MISMATCH | RpcError::UNSUPPORTED_VERSION => between(&error),
        // In a session, the call itself requests a task.
        RpcError::MISSING_CAPABILITY if tasks::is_tasks_required(&error) => {
            RpcError::new(RpcError::METHOD_NOT_FOUND, "this tool runs only as a task; add `task` to the call")
        }
        RpcError::MISSING_CAPABILITY => {
            let data = error.data();
            let data = data.as_ref().and_then(|data| data.read::<serde_json::Value>().ok());
            RpcError::with_data(RpcError::INTERNAL, &error.message(), data)
        }
        // Only URL elicitation was defined in this range.
        code if RESERVED.contains(&code) && code != RpcError::URL_ELICITATION_REQUIRED => upstream(&error),
        // Any other code is implementation-defined in these revisions.
        _ => error,
    }
}

fn concerns(error: &RpcError, declared: &ClientCapabilities) -> bool {
    let needed = error.data().and_then(|data| data.get("requiredCapabilities"));
    let needed = needed.map(|needed| needed.members()).unwrap_or_default();
    let covered = |name: &str, needed: &Raw| {
        let has = declared.0.get(name);
        has.is_some_and(|has| needed.members().iter().all(|part| has.get(&part.key).is_some()))
    };
    needed.is_empty() || needed.iter().any(|part| !covered(&part.key, &part.value))
}

fn between(error: &RpcError) -> RpcError {
    RpcError::new(RpcError::INTERNAL, &format!("error between Toolway and the server: {error}"))
}

fn upstream(error: &RpcError) -> RpcError {
    let data = json!({ "upstream": { "code": error.code(), "message": error.message() } });
    RpcError::with_data(RpcError::INTERNAL, &error.message(), data)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{to_stateful, to_stateless};
    use crate::{
        json::Raw,
        message::{ClientCapabilities, RpcError},
    };

    /// Code from a server, code for a stateless client, code for a stateful client.
    const TABLE: [(i64, i64, i64); 14] = [
        (-32002, -32602, -32002),
        (-32602, -32602, -32602),
        (-32601, -32601, -32601),
        (-32600, -32600, -32600),
        (-32603, -32603, -32603),
        (-32042, -32603, -32042),
        (-32020, -32603, -32603),
        (-32022, -32603, -32603),
        (-32021, -32021, -32603),
        (-32000, -32603, -32000),
        (-32019, -32603, -32019),
        (-32023, -32603, -32603),
        (-32099, -32603, -32603),
        (-1, -1, -1),
    ];

    #[test]
    fn error_codes_are_mapped_per_era() {
        for (code, stateless, stateful) in TABLE {
            let error = RpcError::new(code, "what happened");
            let uri = Raw::of("memo://one");
            let to_stateless = to_stateless(error.clone(), Some(&uri), &ClientCapabilities::none());
            let to_stateful = to_stateful(error);
            assert_eq!((to_stateless.code(), to_stateful.code()), (stateless, stateful), "{code}");
            assert!(
                to_stateless.message().contains("what happened") && to_stateful.message().contains("what happened")
            );
        }
    }

    #[test]
    fn missing_capability_is_reported_only_if_undeclared() {
        let data = json!({ "requiredCapabilities": { "sampling": { "tools": {} } } });
        let error = RpcError::with_data(RpcError::MISSING_CAPABILITY, "needs more", data);
        for (declared, code) in
            [("{}", -32021), (r#"{"sampling":{}}"#, -32021), (r#"{"sampling":{"tools":{}}}"#, -32603)]
        {
            let declared = ClientCapabilities(Raw::parse(declared.to_owned()).unwrap());
            assert_eq!(to_stateless(error.clone(), None, &declared).code(), code, "{declared:?}");
        }
    }
}
