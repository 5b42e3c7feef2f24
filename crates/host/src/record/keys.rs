//! Idempotency keys: a caller names a call, so that its repetition is recognised and does not act twice.
//!
//! A key belongs to its owner: the key fingerprint of a client, a conversation, the terminal. The first call that claims it
//! holds it for [`KEPT`]; a call that was not sent frees it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use ring::digest::{SHA256, digest};
use uuid::Uuid;

use super::{CallState, Delivery, StoredCall};

/// Longest key, in bytes.
pub const MAX_KEY: usize = 255;

/// How long a key is held after it was claimed.
pub const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A key with its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    owner: Arc<str>,
    key: Arc<str>,
    strictness: Strictness,
}

/// What happens to a call whose key cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strictness {
    /// It is refused: its caller relies on the key.
    Refused,
    /// It is sent if calls without a record are.
    AsRecords,
}

/// Why a request has no usable key, although it has one. Such a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The text is not a key, or there are several.
    #[error("an idempotency key has 1 to {MAX_KEY} visible ASCII characters, and a request has one")]
    Malformed,
    /// The request has another key in each place.
    #[error("the header and `_meta` have different idempotency keys")]
    Different,
}

/// A call that wants to hold a key.
#[derive(Clone, Debug)]
pub struct KeyClaim {
    /// The key.
    pub key: IdempotencyKey,
    /// Server, kind and name of the item.
    pub item: String,
    /// Digest of the arguments.
    pub digest: Vec<u8>,
    /// The call.
    pub call: Uuid,
    /// When it is made: keys that were claimed more than [`KEPT`] before are free.
    pub at: SystemTime,
    /// Whether the item is annotated idempotent or read-only: then a call with an unknown outcome does not hold the key.
    pub idempotent: bool,
}

/// Who holds a key after a claim.
#[derive(Clone, Debug)]
pub enum KeyHolder {
    /// The call that claimed it.
    Claimed,
    /// Another call.
    Held(Box<HeldKey>),
}

/// A key that another call holds.
#[derive(Clone, Debug)]
pub struct HeldKey {
    /// Whether that call has the same item and arguments.
    pub is_same: bool,
    /// That call.
    pub call: Uuid,
    /// Its record; `None` if it is not written yet, or was removed.
    pub record: Option<StoredCall>,
}

/// Why a call with a key was not sent: another call holds the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// That call has another item or other arguments.
    OtherArguments,
    /// It was sent, and its outcome is not known.
    Unknown {
        /// Id of that call.
        call: Uuid,
    },
    /// It was answered, and the result is not kept.
    NotKept {
        /// Id of that call.
        call: Uuid,
    },
    /// It was answered with an error.
    Failed {
        /// Id of that call.
        call: Uuid,
        /// The error as it was recorded.
        message: String,
    },
}

impl IdempotencyKey {
    /// A key of this owner.
    pub fn new(owner: impl Into<Arc<str>>, key: &str) -> Result<Self, InvalidKey> {
        let is_valid = (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
        let strictness = Strictness::Refused;
        if is_valid {
            Ok(Self { owner: owner.into(), key: key.into(), strictness })
        } else {
            Err(InvalidKey::Malformed)
        }
    }

    /// The key of a call that a model made in a conversation: the position of its message, and the id of the call there. A
    /// call whose key cannot be kept is treated as one that cannot be recorded.
    pub fn of_conversation(conversation: &str, message: usize, call: &str) -> Self {
        // The id is text of a vendor.
        let call = digest(&SHA256, call.as_bytes());
        let call: String = call.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self {
            owner: format!("conversation:{conversation}").into(),
            key: format!("{message}/{call}").into(),
            strictness: Strictness::AsRecords,
        }
    }

    /// Whether a call is refused if its key cannot be kept.
    pub(crate) fn is_strict(&self) -> bool {
        self.strictness == Strictness::Refused
    }

    /// Whose key it is.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The key itself.
    pub fn as_str(&self) -> &str {
        &self.key
    }
}

impl HeldKey {
    /// Whether the call that holds it has not ended.
    pub fn is_open(&self) -> bool {
        self.record.as_ref().is_none_or(|call| call.row.state.is_open())
    }

    /// What a repetition is told if it gets no result.
    pub(crate) fn refusal(&self) -> Repeated {
        let call = self.call;
        match &self.record {
            Some(found) if found.row.outcome == Some(Delivery::Answered) => match &found.row.error {
                Some(message) if found.row.state == CallState::Failed => {
                    Repeated::Failed { call, message: message.clone() }
                }
                _ => Repeated::NotKept { call },
            },
            _ => Repeated::Unknown { call },
        }
    }
}

impl Repeated {
    /// The outcome of the call that holds the key, for the client of the repetition.
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::OtherArguments => Delivery::NotSent,
            Self::Unknown { .. } => Delivery::Unknown,
            Self::NotKept { .. } | Self::Failed { .. } => Delivery::Answered,
        }
    }
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherArguments => f.write_str("the idempotency key belongs to a call with another tool or arguments"),
            Self::Unknown { call } => {
                write!(
                    f,
                    "not sent again: call {call} under the same idempotency key was sent, and its outcome is unknown"
                )
            }
            Self::NotKept { call } => {
                write!(f, "not sent again: call {call} under the same idempotency key was answered; result not kept")
            }
            Self::Failed { call, message } => {
                write!(
                    f,
                    "not sent again: call {call} under the same idempotency key was answered with an error: {message}"
                )
            }
        }
    }
}
