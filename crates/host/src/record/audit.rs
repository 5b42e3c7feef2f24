//! The audit log as it is read: its entries, and whether they are as they were written.

use toolway_wire::time::Micros;
use uuid::Uuid;

use super::AuditGroup;

/// Kinds of audit entries.
pub mod kind {
    /// Policy asked or refused.
    pub const DECISION: &str = "decision";
    /// An approval request was answered, or a saved approval was removed.
    pub const APPROVAL: &str = "approval";
    /// A server request was answered, declined or cancelled.
    pub const SERVER_REQUEST: &str = "server-request";
    /// A model answered the request of a server, or the request was refused; `details` has model and tokens.
    pub const SAMPLING: &str = "sampling";
    /// Arguments or a result do not match the schemas of their tool.
    pub const VALIDATION: &str = "validation";
    /// A connection to a server was opened, closed, lost or failed.
    pub const CONNECTION: &str = "connection";
    /// A user signed in or out.
    pub const SIGN_IN: &str = "sign-in";
    /// A configuration file was changed, or the configuration was read again.
    pub const CONFIGURATION: &str = "configuration";
    /// A key of a client was created or revoked.
    pub const KEY: &str = "key";
    /// A secret of the user was stored or removed; never with its value.
    pub const SECRET: &str = "secret";
    /// A call ended; `details` has its state.
    pub const CALL: &str = "call";
    /// A person settled a call whose outcome was unknown.
    pub const SETTLEMENT: &str = "settlement";
    /// A process ended without ending its calls.
    pub const RECOVERY: &str = "recovery";
    /// The store itself: it replaces a corrupt one, began to remove records, or removed audit entries.
    pub const STORE: &str = "store";

    /// All of them.
    pub const ALL: [&str; 14] = [
        DECISION,
        APPROVAL,
        SERVER_REQUEST,
        SAMPLING,
        VALIDATION,
        CONNECTION,
        SIGN_IN,
        CONFIGURATION,
        KEY,
        SECRET,
        CALL,
        SETTLEMENT,
        RECOVERY,
        STORE,
    ];
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Position in the chain, from 1.
    pub seq: i64,
    /// When it happened.
    pub at: Micros,
    /// One of [`kind`].
    pub kind: String,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
    /// Server name.
    pub server: Option<String>,
    /// Tool, prompt, key, file …
    pub subject: Option<String>,
    /// The call it belongs to.
    pub call: Option<Uuid>,
    /// A JSON object.
    pub details: String,
    /// SHA-256 of this entry and of the hash before it.
    pub hash: [u8; 32],
}

/// Which entries to return. Absent members match every entry.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// One of [`kind`].
    pub kind: Option<String>,
    /// Entries of this group.
    pub group: Option<AuditGroup>,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
    /// Server name.
    pub server: Option<String>,
    /// The call the entries belong to.
    pub call: Option<Uuid>,
    /// Not before.
    pub since: Option<Micros>,
    /// Not after.
    pub until: Option<Micros>,
    /// Entries after this position only, oldest first.
    pub after: Option<i64>,
    /// At most this many.
    pub limit: usize,
}

/// Result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// All entries are as they were written.
    Intact {
        /// Entries that are kept.
        entries: u64,
        /// Position of the last entry that retention removed; 0 if none was.
        checkpoint: i64,
    },
    /// An entry was changed, removed or added outside the log.
    Broken {
        /// Position of the first entry that does not fit.
        seq: i64,
    },
}

/// What the log says about its own beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOrigin {
    /// Name of the corrupt store that this one replaces.
    pub replaces: Option<String>,
    /// When the entries up to the checkpoint were removed.
    pub removed_at: Option<Micros>,
}

#[cfg(test)]
mod tests {
    use super::kind;

    /// One that is not in the list is refused by `audit query --kind`, and lost from a journal.
    #[test]
    fn the_list_of_kinds_has_every_kind() {
        let constants = include_str!("audit.rs").lines().filter_map(|line| line.trim().strip_prefix("pub const "));
        let kinds: Vec<_> =
            constants.filter_map(|line| line.split_once(": &str = \"")?.1.strip_suffix("\";")).collect();
        let missing: Vec<_> = kinds.iter().filter(|word| !kind::ALL.contains(word)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(kinds.len(), kind::ALL.len());
    }
}
