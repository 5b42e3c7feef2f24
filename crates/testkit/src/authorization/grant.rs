//! The token endpoint: authorization codes, refresh tokens and grants without a user.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::digest::{SHA256, digest};
use serde_json::json;
use url::form_urlencoded;

use super::{Shared, document::refusal, ledger::Consent, quirks::Quirk};
use crate::odd::http::{Act, RecordedRequest, Reply};

/// A request to the token endpoint.
struct Request<'a> {
    shared: &'a Shared,
    form: Vec<(String, String)>,
    /// Client id and client secret.
    client: (String, Option<String>),
}

/// Error code of the specification, and a description.
type Refusal = (&'static str, &'static str);

/// Fields that hold secrets.
const SECRET_FIELDS: [&str; 5] = ["code", "code_verifier", "refresh_token", "client_secret", "assertion"];
/// Grant type of a platform assertion.
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Issues tokens or returns an error.
pub(super) fn exchange(shared: &Shared, seen: &RecordedRequest) -> Reply {
    let form: Vec<(String, String)> = form_urlencoded::parse(seen.body()).into_owned().collect();
    for (_, value) in form.iter().filter(|(name, _)| SECRET_FIELDS.contains(&name.as_str())) {
        shared.ledger().note_secret(value);
    }
    let client = client(shared, seen, &form);
    let request = Request { shared, form, client };
    let renews = request.get("grant_type") == "refresh_token";
    match request.answer() {
        Ok(_) if renews && shared.quirks().has(&Quirk::DropsRefreshResponse) => Reply::bare().then(Act::Close),
        Ok(reply) => reply,
        Err((error, why)) if shared.quirks().has(&Quirk::EchoesRequest) => {
            let repeated = String::from_utf8_lossy(seen.body()).into_owned();
            let sent = seen.header("authorization").unwrap_or_default();
            refusal(400, error, &format!("{why}: {sent} {repeated}"))
        }
        Err((error, why)) => refusal(if error == "invalid_client" { 401 } else { 400 }, error, why),
    }
}

/// Client id and secret, from the header or from the body.
fn client(shared: &Shared, seen: &RecordedRequest, form: &[(String, String)]) -> (String, Option<String>) {
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
            return self.jwt_bearer();
        }
        let (id, secret) = &self.client;
        let known = self.shared.client(id).ok_or(("invalid_client", "unknown client"))?;
        if known.secret != *secret {
            return Err(("invalid_client", "wrong client secret"));
        }
        let (family, consent) = match self.get("grant_type") {
            "authorization_code" => self.code()?,
            "refresh_token" => self.refresh()?,
            "client_credentials" if secret.is_some() => return Ok(self.unattended(id)),
            _ => return Err(("unsupported_grant_type", "a code or a refresh token is required")),
        };
        Ok(self.tokens(Some(family), &consent))
    }

    /// A trusted platform assertion needs no client authentication.
    fn jwt_bearer(&self) -> Result<Reply, Refusal> {
        let assertion = self.get("assertion");
        if self.shared.ledger().assertion.as_deref() != Some(assertion) {
            return Err(("invalid_grant", "unknown assertion"));
        }
        Ok(self.unattended("workload"))
    }

    /// Grants without a user get no refresh token.
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
        if self.shared.quirks().has(&Quirk::ExpiredCodes) {
            return Err(("invalid_grant", "the code has expired"));
        }
        let verified = URL_SAFE_NO_PAD.encode(digest(&SHA256, self.get("code_verifier").as_bytes()));
        if verified != consent.challenge || consent.redirect != self.get("redirect_uri") {
            return Err(("invalid_grant", "the verifier or the redirect URI does not match"));
        }
        self.bound(family, consent)
    }

    fn refresh(&self) -> Result<(usize, Consent), Refusal> {
        if self.shared.quirks().has(&Quirk::RefusesRefresh) {
            return Err(("invalid_grant", "the refresh token has expired"));
        }
        let rotates = !self.shared.quirks().has(&Quirk::NoRotation);
        let taken = self.shared.ledger().take_refresh(self.get("refresh_token"), rotates);
        let (family, consent) = taken.map_err(|why| ("invalid_grant", why))?;
        self.bound(family, consent)
    }

    /// A grant is bound to one client and one resource.
    fn bound(&self, family: usize, consent: Consent) -> Result<(usize, Consent), Refusal> {
        if consent.client != self.client.0 {
            return Err(("invalid_grant", "it was issued to another client"));
        }
        if consent.resource != self.get("resource") {
            return Err(("invalid_target", "it was issued for another resource"));
        }
        Ok((family, consent))
    }

    fn tokens(&self, family: Option<usize>, consent: &Consent) -> Reply {
        let (quirks, issuer) = (self.shared.quirks(), self.shared.issuer());
        let mut ledger = self.shared.ledger();
        let token = self.shared.signer.sign(&ledger.claims(&issuer, consent, quirks.lasts()));
        ledger.note_secret(&token);
        let mut reply = json!({ "access_token": token, "token_type": "Bearer", "scope": consent.scope });
        if !quirks.has(&Quirk::NoExpiresIn) {
            reply["expires_in"] = quirks.lasts().into();
        }
        let keeps_its = self.get("grant_type") == "refresh_token" && quirks.has(&Quirk::NoRotation);
        if let Some(family) = family.filter(|_| !keeps_its && !quirks.has(&Quirk::NoRefresh)) {
            reply["refresh_token"] = ledger.new_refresh(family).into();
        }
        Reply::json(200, &reply).header("Cache-Control", "no-store")
    }
}
