//! State of the test authorization server: clients, issued codes and refresh tokens, and all secrets.
//!
//! A second use of a code revokes the sign-in that it was exchanged for. With rotation, a second use of a refresh token
//! revokes its whole family.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::signed::{now, unguessable};

/// A registered client.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) secret: Option<String>,
    /// Allowed redirect URIs; if empty, any on this machine.
    pub(super) redirects: Vec<String>,
}

/// What a user agreed to.
#[derive(Clone, Debug)]
pub(super) struct Consent {
    pub(super) client: String,
    pub(super) redirect: String,
    pub(super) challenge: String,
    pub(super) resource: String,
    pub(super) scope: String,
    pub(super) subject: String,
}

/// All tokens that follow from one consent.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) consent: Consent,
    pub(super) revoked: bool,
}

/// A code or refresh token: its family, and whether it was used.
#[derive(Clone, Copy, Debug)]
struct OneTimeToken {
    family: usize,
    used: bool,
}

/// Complete state.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) clients: BTreeMap<String, Client>,
    families: Vec<Family>,
    codes: BTreeMap<String, OneTimeToken>,
    refresh: BTreeMap<String, OneTimeToken>,
    /// Newest refresh token of each family.
    newest: BTreeMap<usize, String>,
    /// Trusted platform assertion.
    pub(super) assertion: Option<String>,
    /// Number of the last access token.
    pub(super) serial: u64,
    secrets: BTreeSet<String>,
}

// === impl Ledger ===

impl Ledger {
    /// Records a secret.
    pub(super) fn note_secret(&mut self, secret: &str) {
        self.secrets.insert(secret.to_owned());
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        self.secrets.iter().cloned().collect()
    }

    pub(super) fn revoked_families(&self) -> usize {
        self.families.iter().filter(|family| family.revoked).count()
    }

    /// Newest valid refresh token, of the newest consent.
    pub(super) fn newest_refresh(&self) -> Option<String> {
        let good = |(family, token): (&usize, &String)| (!self.families[*family].revoked).then(|| token.clone());
        self.newest.iter().rev().find_map(good)
    }

    pub(super) fn new_code(&mut self, consent: Consent) -> String {
        let code = unguessable("code");
        self.families.push(Family { consent, revoked: false });
        self.codes.insert(code.clone(), OneTimeToken { family: self.families.len() - 1, used: false });
        self.note_secret(&code);
        code
    }

    pub(super) fn new_refresh(&mut self, family: usize) -> String {
        let token = unguessable("refresh");
        self.refresh.insert(token.clone(), OneTimeToken { family, used: false });
        self.newest.insert(family, token.clone());
        self.note_secret(&token);
        token
    }

    /// Uses a code; a second use is refused and revokes the family.
    pub(super) fn take_code(&mut self, code: &str) -> Result<(usize, Consent), &'static str> {
        let token_entry = self.codes.get_mut(code).ok_or("unknown code")?;
        let (family, replayed) = (token_entry.family, std::mem::replace(&mut token_entry.used, true));
        self.consent(family, replayed, "the code was already used")
    }

    /// Uses a refresh token; with rotation, a second use is refused and revokes the family.
    pub(super) fn take_refresh(&mut self, token: &str, rotates: bool) -> Result<(usize, Consent), &'static str> {
        let token_entry = self.refresh.get_mut(token).ok_or("unknown refresh token")?;
        let (family, replayed) = (token_entry.family, rotates && std::mem::replace(&mut token_entry.used, true));
        self.consent(family, replayed, "the refresh token was already used")
    }

    fn consent(&mut self, family: usize, replayed: bool, why: &'static str) -> Result<(usize, Consent), &'static str> {
        let known = &mut self.families[family];
        known.revoked |= replayed;
        match known.revoked {
            true if replayed => Err(why),
            true => Err("it was revoked"),
            false => Ok((family, known.consent.clone())),
        }
    }

    /// Claims of the next access token.
    pub(super) fn claims(&mut self, issuer: &str, consent: &Consent, lasts: u64) -> Value {
        self.serial += 1;
        json!({
            "iss": issuer, "sub": consent.subject, "aud": consent.resource, "client_id": consent.client,
            "scope": consent.scope, "iat": now(), "exp": now() + lasts, "jti": self.serial,
        })
    }
}
