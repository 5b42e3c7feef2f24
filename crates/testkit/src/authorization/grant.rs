//! The token endpoint: codes and refresh tokens from clients that say who they are, and grants that need nobody.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::digest::{SHA256, digest};
use serde_json::json;
use url::form_urlencoded;

use super::{Shared, conduct::Quirk, document::refusal, ledger::Consent};
use crate::odd::http::{Act, Reply, Seen};

/// A request to the token endpoint.
struct Request<'a> {
    shared: &'a Shared,
    form: Vec<(String, String)>,
    /// The client and the secret it showed.
    client: (String, Option<String>),
}

/// Why there is no token: the word of the specification and a sentence.
type Refusal = (&'static str, &'static str);

/// Fields whose values must be found nowhere.
const SECRET_FIELDS: [&str; 5] = ["code", "code_verifier", "refresh_token", "client_secret", "assertion"];
/// The grant of a platform's word.
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Gives tokens, or says why not.
pub(super) fn exchange(shared: &Shared, seen: &Seen) -> Reply {
    let form: Vec<(String, String)> = form_urlencoded::parse(seen.body()).into_owned().collect();
    for (_, value) in form.iter().filter(|(name, _)| SECRET_FIELDS.contains(&name.as_str())) {
        shared.ledger().note_secret(value);
    }
    let client = client(shared, seen, &form);
    let request = Request { shared, form, client };
    let renews = request.get("grant_type") == "refresh_token";
    match request.answer() {
        Ok(_) if renews && shared.conduct().has(&Quirk::LosesRenewals) => Reply::bare().then(Act::Close),
        Ok(reply) => reply,
        Err((error, why)) if shared.conduct().has(&Quirk::Repeats) => {
            let repeated = String::from_utf8_lossy(seen.body()).into_owned();
            let sent = seen.header("authorization").unwrap_or_default();
            refusal(400, error, &format!("{why}: {sent} {repeated}"))
        }
        Err((error, why)) => refusal(if error == "invalid_client" { 401 } else { 400 }, error, why),
    }
}

/// The client and its secret, from the header or from the body.
fn client(shared: &Shared, seen: &Seen, form: &[(String, String)]) -> (String, Option<String>) {
    let field = |name: &str| form.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let basic = seen.header("authorization").and_then(|value| value.strip_prefix("Basic "));
    let Some(basic) = basic else { return (field("client_id").unwrap_or_default(), field("client_secret")) };
    shared.ledger().note_secret(basic);
    let pair = STANDARD.decode(basic).ok().and_then(|pair| String::from_utf8(pair).ok()).unwrap_or_default();
    let (id, secret) = pair.split_once(':').unwrap_or((&pair, ""));
    let decoded = |text: &str| -> String {
        form_urlencoded::parse(text.as_bytes()).next().map(|(text, _)| text.into_owned()).unwrap_or_default()
    };
    (decoded(id), Some(decoded(secret)))
}

impl Request<'_> {
    fn get(&self, name: &str) -> &str {
        self.form.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    fn answer(&self) -> Result<Reply, Refusal> {
        if self.get("grant_type") == JWT_BEARER {
            return self.vouched();
        }
        let (id, secret) = &self.client;
        let known = self.shared.client(id).ok_or(("invalid_client", "unknown client"))?;
        if known.secret != *secret {
            return Err(("invalid_client", "it is not this client's secret"));
        }
        let (family, consent) = match self.get("grant_type") {
            "authorization_code" => self.code()?,
            "refresh_token" => self.refresh()?,
            "client_credentials" if secret.is_some() => return Ok(self.unattended(id)),
            _ => return Err(("unsupported_grant_type", "a code or a refresh token is needed")),
        };
        Ok(self.tokens(Some(family), &consent))
    }

    /// Whoever has the word of a platform that is trusted here needs to be no client.
    fn vouched(&self) -> Result<Reply, Refusal> {
        let word = self.get("assertion");
        if self.shared.ledger().word.as_deref() != Some(word) {
            return Err(("invalid_grant", "nobody vouches for it"));
        }
        Ok(self.unattended("workload"))
    }

    /// Nobody agreed to anything, so there is nothing to renew.
    fn unattended(&self, subject: &str) -> Reply {
        let text = |name: &str| self.get(name).to_owned();
        let consent = Consent {
            client: self.client.0.clone(),
            redirect: String::new(),
            challenge: String::new(),
            resource: text("resource"),
            scope: text("scope"),
            subject: subject.to_owned(),
        };
        self.tokens(None, &consent)
    }

    fn code(&self) -> Result<(usize, Consent), Refusal> {
        let taken = self.shared.ledger().take_code(self.get("code"));
        let (family, consent) = taken.map_err(|why| ("invalid_grant", why))?;
        if self.shared.conduct().has(&Quirk::CodesEnd) {
            return Err(("invalid_grant", "the code has ended"));
        }
        let verified = URL_SAFE_NO_PAD.encode(digest(&SHA256, self.get("code_verifier").as_bytes()));
        if verified != consent.challenge || consent.redirect != self.get("redirect_uri") {
            return Err(("invalid_grant", "the verifier or the redirect is another one"));
        }
        self.bound(family, consent)
    }

    fn refresh(&self) -> Result<(usize, Consent), Refusal> {
        if self.shared.conduct().has(&Quirk::RefusesRenewals) {
            return Err(("invalid_grant", "the sign-in has ended"));
        }
        let rotates = !self.shared.conduct().has(&Quirk::NoRotation);
        let taken = self.shared.ledger().take_refresh(self.get("refresh_token"), rotates);
        let (family, consent) = taken.map_err(|why| ("invalid_grant", why))?;
        self.bound(family, consent)
    }

    /// Whatever was agreed to was agreed to for one client and one resource.
    fn bound(&self, family: usize, consent: Consent) -> Result<(usize, Consent), Refusal> {
        if consent.client != self.client.0 {
            return Err(("invalid_grant", "it was given to another client"));
        }
        if consent.resource != self.get("resource") {
            return Err(("invalid_target", "it was given for another resource"));
        }
        Ok((family, consent))
    }

    fn tokens(&self, family: Option<usize>, consent: &Consent) -> Reply {
        let (conduct, issuer) = (self.shared.conduct(), self.shared.issuer());
        let mut ledger = self.shared.ledger();
        let token = self.shared.signer.sign(&ledger.claims(&issuer, consent, conduct.lasts()));
        ledger.note_secret(&token);
        let mut reply = json!({ "access_token": token, "token_type": "Bearer", "scope": consent.scope });
        if !conduct.has(&Quirk::LastsUnsaid) {
            reply["expires_in"] = conduct.lasts().into();
        }
        let keeps_its = self.get("grant_type") == "refresh_token" && conduct.has(&Quirk::NoRotation);
        if let Some(family) = family.filter(|_| !keeps_its && !conduct.has(&Quirk::NoRefresh)) {
            reply["refresh_token"] = ledger.new_refresh(family).into();
        }
        Reply::json(200, &reply).header("Cache-Control", "no-store")
    }
}
