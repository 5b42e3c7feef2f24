//! The key under which a credential is kept: whose it is, from whom, for which client, for what.

/// Whose credential it is, from whom, for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CredentialKey {
    /// On whose behalf; for people with several accounts at one server, with the profile.
    pub principal: String,
    /// Who issued it.
    pub issuer: String,
    /// The client it was issued to.
    pub client: String,
    /// The resource it is for.
    pub resource: String,
}
