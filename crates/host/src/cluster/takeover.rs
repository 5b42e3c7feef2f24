//! What became of the calls and tasks of a member that was taken over.

use uuid::Uuid;

/// Answer to an attempt to take over a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// This attempt has done it.
    Done(TakenOver),
    /// It had been done before, or the member has left.
    Before,
    /// The lease of the member has not expired.
    StillLive,
}

/// What one takeover has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Calls that were ended as `unknown`: their requests may have been sent.
    pub unknown: u64,
    /// Calls that were ended as `not-sent`.
    pub not_sent: u64,
    /// Tasks that go on: free for any member to claim, or those of this process, if it was an earlier registration of it. Their
    /// calls stay open.
    pub tasks: Vec<Uuid>,
}
