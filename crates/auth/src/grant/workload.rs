//! Workload identity: an assertion of the platform is exchanged for a token (RFC 7523).
//!
//! A refusal is final: the same assertion is not sent again, and no other grant is tried.

use std::sync::Arc;

use parking_lot::Mutex;
use toolway_config::Secret;

use super::{
    GrantError, GrantRequest,
    assertion::{self, AssertionSource},
};
use crate::{
    credential::now,
    token::{ClientAuth, TokenError, TokenResponse},
};

/// A workload identity.
#[derive(Debug)]
pub struct Workload {
    /// Source of the platform's assertion.
    assertion: Arc<dyn AssertionSource>,
    /// Client id, if the authorization server requires one.
    pub(super) client: Option<String>,
    /// Audience of the assertion, if it is not the issuer or the token endpoint.
    audience: Option<String>,
    // Nothing awaits under this lock.
    refused: Mutex<Option<(Secret, TokenError)>>,
}

const WHAT: &str = "the assertion";

impl Workload {
    /// A workload identity with this source of assertions.
    pub fn new(assertion: Arc<dyn AssertionSource>, client: Option<String>, audience: Option<String>) -> Self {
        Self { assertion, client, audience, refused: Mutex::default() }
    }

    pub(super) async fn request_token(&self, grant_request: GrantRequest<'_>) -> Result<TokenResponse, GrantError> {
        let assertion = assertion::take(WHAT, &*self.assertion).await?;
        match &self.audience {
            Some(audience) => assertion::check(WHAT, &assertion, &[audience], now())?,
            None => {
                let names = [grant_request.server.issuer.as_str(), grant_request.server.token_endpoint.as_str()];
                assertion::check(WHAT, &assertion, &names, now())?;
            }
        }
        if let Some((_, error)) = self.refused.lock().as_ref().filter(|(refused, _)| *refused == assertion) {
            return Err(error.clone().into());
        }
        let client = self.client.clone().map_or(ClientAuth::Anonymous, |id| ClientAuth::Public { id });
        let reply = grant_request.send_assertion(&client, assertion.clone()).await;
        if let Err(GrantError::Token(error @ TokenError::Refused { .. })) = &reply {
            *self.refused.lock() = Some((assertion, error.clone()));
        }
        reply
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use toolway_config::Secret;

    use super::{AssertionSource, Workload, now};
    use crate::{
        grant::{
            Grant,
            tests::{ENDPOINT, TOKEN, login, remote, request_token},
        },
        jwt::encode,
        scripted::ScriptedFetch,
    };

    /// A secret that looks like a JWT.
    pub(crate) fn unsigned_jwt(claims: &Value) -> Secret {
        Secret::new(format!("{}.{}.{}\n", encode("{}"), encode(claims.to_string()), encode("signature")))
    }

    fn grant(assertion: Secret, audience: Option<&str>) -> Grant {
        Grant::Workload(Workload::new(Arc::new(assertion), None, audience.map(str::to_owned)))
    }

    #[tokio::test]
    async fn assertion_is_the_only_grant_parameter() {
        for audience in [json!("https://login.example/"), json!(["x", "https://login.example/token"]), json!(null)] {
            let (remote, assertion) = (remote(), unsigned_jwt(&json!({ "aud": audience, "exp": now() + 60 })));
            request_token(&grant(assertion.clone(), None), &remote, &login()).await.unwrap();
            assert_eq!(remote.field(0, "assertion").as_deref(), Some(assertion.expose().trim()));
            assert_eq!(remote.field(0, "grant_type").as_deref(), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
            assert_eq!((remote.field(0, "client_id"), remote.form(0).len()), (None, 4));
        }
    }

    #[tokio::test]
    async fn assertion_that_expired_or_is_for_another_audience_is_not_sent() {
        let remote = remote();
        let foreign = unsigned_jwt(&json!({ "aud": "https://cloud.example" }));
        let refused = request_token(&grant(foreign.clone(), None), &remote, &login()).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the assertion is for `https://cloud.example`, not for `https://login.example` or \
            `https://login.example/token`; it was not sent"
        );
        let old = unsigned_jwt(&json!({ "aud": "https://login.example", "exp": 1 }));
        for (assertion, audience) in
            [(old, None), (foreign.clone(), Some("https://other.example")), (Secret::new(" \n"), None)]
        {
            request_token(&grant(assertion, audience), &remote, &login()).await.unwrap_err();
        }
        assert!(remote.urls().is_empty());
        request_token(&grant(foreign, Some("https://cloud.example")), &remote, &login()).await.unwrap();
        request_token(&grant(Secret::new("opaque-word"), None), &remote, &login()).await.unwrap();
    }

    #[derive(Debug)]
    struct Replaced(Mutex<Secret>);

    impl AssertionSource for Replaced {
        fn read(&self) -> BoxFuture<'_, Result<Secret, String>> {
            let text = self.0.lock().clone();
            Box::pin(async { Ok(text) })
        }
    }

    #[tokio::test]
    async fn refused_assertion_is_not_sent_again_but_a_new_one_is() {
        let refusal = r#"{"error":"invalid_grant","error_description":"not you"}"#;
        let remote = Arc::<ScriptedFetch>::default().answer(ENDPOINT, 400, refusal).answer(ENDPOINT, 200, TOKEN);
        let words = Arc::new(Replaced(Mutex::new(Secret::new("first-word"))));
        let grant =
            Grant::Workload(Workload::new(Arc::clone(&words) as Arc<dyn AssertionSource>, Some("me".to_owned()), None));
        for _ in 0..3 {
            let refused = request_token(&grant, &remote, &login()).await.unwrap_err().to_string();
            assert_eq!(refused, "token request to `https://login.example/token` refused: `invalid_grant` (not you)");
        }
        assert_eq!(remote.urls().len(), 1);
        *words.0.lock() = Secret::new("second-word");
        request_token(&grant, &remote, &login()).await.unwrap();
        assert_eq!(remote.field(1, "client_id").as_deref(), Some("me"));
        assert!(!format!("{grant:?}").contains("-word"));
    }
}
