//! What an authorization server is told to do differently from one that keeps the rules.

use std::time::Duration;

/// A place at an authorization server, by what is asked for there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// What it says about itself.
    Metadata,
    /// Its public keys.
    Keys,
    /// A client registers itself.
    Registration,
    /// A person signs in.
    Page,
    /// A code is exchanged.
    Code,
    /// A token is renewed.
    Renewal,
    /// A token is asked for without a person.
    Grant,
    /// Nothing is there.
    Elsewhere,
}

/// One departure from the rules, or from the usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// The metadata names another issuer.
    CallsItself(String),
    /// The metadata says that people sign in at this address.
    PageAt(String),
    /// The metadata says that tokens come from this address.
    TokensAt(String),
    /// The metadata does not mention PKCE.
    NoPkce,
    /// The metadata does not say that callbacks name their sender, and they do not.
    NamesNobody,
    /// Callbacks do not name their sender, though the metadata says that they do.
    Nameless,
    /// Callbacks name somebody else.
    CallbackFrom(String),
    /// People are sent on to another authorization server, whose callback comes in the place of ours: the mix-up.
    SendsPeopleTo(String),
    /// A person has to press a button first.
    Button,
    /// No client can register itself.
    NoRegistration,
    /// Every registration is refused.
    RefusesClients,
    /// Clients that register themselves get a secret.
    SecretClients,
    /// A client's id may be the address of a document about it. The document is not fetched.
    TakesDocuments,
    /// Codes have ended when they arrive.
    CodesEnd,
    /// Access tokens last so many seconds.
    Lasts(u64),
    /// Nothing is said about how long access tokens last.
    LastsUnsaid,
    /// No refresh token is given.
    NoRefresh,
    /// A refresh token is good for ever.
    NoRotation,
    /// No refresh token is taken.
    RefusesRenewals,
    /// A renewal is done, and then nobody hears of it.
    LosesRenewals,
    /// Refusals repeat everything that was sent.
    Repeats,
    /// Answers at this place redirect elsewhere, with the method and the body.
    Redirects(Endpoint, String),
    /// Answers at this place have this status and say nothing.
    Answers(Endpoint, u16),
    /// Answers at this place never end.
    Endless(Endpoint),
    /// Nothing is ever answered at this place.
    Silent(Endpoint),
    /// Answers at this place come late.
    Late(Endpoint, Duration),
}

/// All of them together; the first of a kind counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Conduct(pub(super) Vec<Quirk>);

// === impl Conduct ===

impl Conduct {
    pub(super) fn has(&self, quirk: &Quirk) -> bool {
        self.0.contains(quirk)
    }

    /// What the first fitting one says.
    pub(super) fn told<T>(&self, fitting: impl FnMut(&Quirk) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(fitting)
    }

    /// How long access tokens last.
    pub(super) fn lasts(&self) -> u64 {
        self.told(|quirk| if let Quirk::Lasts(seconds) = quirk { Some(*seconds) } else { None }).unwrap_or(3600)
    }
}
