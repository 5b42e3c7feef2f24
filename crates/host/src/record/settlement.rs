//! What a person found out about a call whose outcome is unknown.

use toolway_wire::time::Micros;
use uuid::Uuid;

/// Whether a call with an unknown outcome happened. The outcome of its record stays unknown beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The call.
    pub call: Uuid,
    /// When it was settled.
    pub at: Micros,
    /// What happened.
    pub finding: Finding,
    /// Words of the person.
    pub note: Option<String>,
}

/// Whether the server acted on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It did.
    Happened,
    /// It did not: its idempotency key is free again.
    DidNotHappen,
}

impl Finding {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Happened => "happened",
            Self::DidNotHappen => "did-not-happen",
        }
    }
}
