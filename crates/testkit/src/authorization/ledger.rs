//! What an authorization server knows: its clients, the codes and refresh tokens it gave, and everything secret.
//!
//! A code is good once; a second time it takes back what it was exchanged for. A refresh token is good once where they
//! rotate; a second time it takes back its whole family.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::signed::{now, unguessable};

/// A client.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) secret: Option<String>,
    /// Where browsers may be sent back to; anywhere on this machine where nothing is said.
    pub(super) redirects: Vec<String>,
}

/// What a person agreed to.
#[derive(Clone, Debug)]
pub(super) struct Consent {
    pub(super) client: String,
    pub(super) redirect: String,
    pub(super) challenge: String,
    pub(super) resource: String,
    pub(super) scope: String,
    pub(super) subject: String,
}

/// Everything that follows from one consent.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) consent: Consent,
    pub(super) revoked: bool,
}

/// A code or a refresh token: whose it is, and whether it was used.
#[derive(Clone, Copy, Debug)]
struct Slip {
    family: usize,
    used: bool,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) clients: BTreeMap<String, Client>,
    families: Vec<Family>,
    codes: BTreeMap<String, Slip>,
    refresh: BTreeMap<String, Slip>,
    /// The newest refresh token of each family.
    newest: BTreeMap<usize, String>,
    /// What a platform that is trusted says about a program.
    pub(super) word: Option<String>,
    /// The number of the last access token.
    pub(super) serial: u64,
    secrets: BTreeSet<String>,
}

// === impl Ledger ===

impl Ledger {
    /// Something that must be found nowhere.
    pub(super) fn note_secret(&mut self, secret: &str) {
        self.secrets.insert(secret.to_owned());
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        self.secrets.iter().cloned().collect()
    }

    pub(super) fn revoked_families(&self) -> usize {
        self.families.iter().filter(|family| family.revoked).count()
    }

    /// The newest refresh token that is good, of the newest consent.
    pub(super) fn newest_refresh(&self) -> Option<String> {
        let good = |(family, token): (&usize, &String)| (!self.families[*family].revoked).then(|| token.clone());
        self.newest.iter().rev().find_map(good)
    }

    pub(super) fn new_code(&mut self, consent: Consent) -> String {
        let code = unguessable("code");
        self.families.push(Family { consent, revoked: false });
        self.codes.insert(code.clone(), Slip { family: self.families.len() - 1, used: false });
        self.note_secret(&code);
        code
    }

    pub(super) fn new_refresh(&mut self, family: usize) -> String {
        let token = unguessable("refresh");
        self.refresh.insert(token.clone(), Slip { family, used: false });
        self.newest.insert(family, token.clone());
        self.note_secret(&token);
        token
    }

    /// Takes a code; a second time it is refused and takes everything back.
    pub(super) fn take_code(&mut self, code: &str) -> Result<(usize, Consent), &'static str> {
        let slip = self.codes.get_mut(code).ok_or("nobody was given this code")?;
        let (family, replayed) = (slip.family, std::mem::replace(&mut slip.used, true));
        self.consent(family, replayed, "the code was used before")
    }

    /// Takes a refresh token; where they rotate, a second time it is refused and takes the family back.
    pub(super) fn take_refresh(&mut self, token: &str, rotates: bool) -> Result<(usize, Consent), &'static str> {
        let slip = self.refresh.get_mut(token).ok_or("nobody was given this refresh token")?;
        let (family, replayed) = (slip.family, rotates && std::mem::replace(&mut slip.used, true));
        self.consent(family, replayed, "the refresh token was used before")
    }

    fn consent(&mut self, family: usize, replayed: bool, why: &'static str) -> Result<(usize, Consent), &'static str> {
        let known = &mut self.families[family];
        known.revoked |= replayed;
        match known.revoked {
            true if replayed => Err(why),
            true => Err("it was taken back"),
            false => Ok((family, known.consent.clone())),
        }
    }

    /// The claims of the next access token.
    pub(super) fn claims(&mut self, issuer: &str, consent: &Consent, lasts: u64) -> Value {
        self.serial += 1;
        json!({
            "iss": issuer, "sub": consent.subject, "aud": consent.resource, "client_id": consent.client,
            "scope": consent.scope, "iat": now(), "exp": now() + lasts, "jti": self.serial,
        })
    }
}
