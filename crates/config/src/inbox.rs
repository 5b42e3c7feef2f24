//! Settings of the inbox: whether forms and URLs of servers wait there for a person.

use crate::{
    error::ConfigError,
    settings::Settings,
    shape::{Field, Key, Shape, put},
};

/// Keys of `inbox`.
pub(crate) const MEMBERS: &[(&str, Shape)] = &[("wait", Shape::Flag)];

/// The top-level key `inbox`.
pub(crate) const INBOX: Key<Settings> = Key {
    name: "inbox",
    shape: Shape::Members(MEMBERS),
    doc: "`wait`: in calls of clients of the gateway that answer no forms themselves, a form or URL of a server waits in the \
          inbox, for `toolway inbox`, the console, or the client itself at `/requests`. Default: `false`, and servers are not \
          told that they can ask. `gateway.clients.<name>.inbox` says it for one client. In `call` and `run` without a terminal \
          it is the same as `--wait`, if a gateway runs.",
    example: r#"{"wait": true}"#,
    set: |settings, field| {
        if let Some(wait) = read(field)? {
            put(&mut settings.inbox_wait, field.setting(wait))?;
        }
        Ok(())
    },
};

/// Reads `wait`, if it is set.
pub(crate) fn read(field: &Field<'_>) -> Result<Option<bool>, ConfigError> {
    let mut wait = None;
    for (key, field) in field.members()? {
        match key {
            "wait" => wait = Some(field.flag()?),
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(wait)
}
