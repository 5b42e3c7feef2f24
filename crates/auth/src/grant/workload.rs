//! Workload identity: what the platform says about this program is exchanged for a token (RFC 7523).
//!
//! A refusal is final: the same text is not sent again, and no other grant is tried.

use std::sync::Arc;

use parking_lot::Mutex;
use toolway_config::Secret;

use super::{
    Asking, GrantError,
    supply::{self, Supply},
};
use crate::{
    credential::now,
    token::{ClientAuth, TokenError, TokenReply},
};

/// A program that its platform vouches for.
#[derive(Debug)]
pub struct Workload {
    /// What the platform says.
    assertion: Arc<dyn Supply>,
    /// Who we are, where that is asked for.
    pub(super) client: Option<String>,
    /// For whom the assertion is, where that is not what the authorization server calls itself.
    audience: Option<String>,
    // Nothing awaits under this lock.
    refused: Mutex<Option<(Secret, TokenError)>>,
}

const WHAT: &str = "the assertion";

impl Workload {
    /// With what this says.
    pub fn new(assertion: Arc<dyn Supply>, client: Option<String>, audience: Option<String>) -> Self {
        Self { assertion, client, audience, refused: Mutex::default() }
    }

    pub(super) async fn ask(&self, asking: Asking<'_>) -> Result<TokenReply, GrantError> {
        let assertion = supply::take(WHAT, &*self.assertion).await?;
        match &self.audience {
            Some(audience) => supply::check(WHAT, &assertion, &[audience], now())?,
            None => {
                let names = [asking.server.issuer.as_str(), asking.server.token_endpoint.as_str()];
                supply::check(WHAT, &assertion, &names, now())?;
            }
        }
        if let Some((_, error)) = self.refused.lock().as_ref().filter(|(refused, _)| *refused == assertion) {
            return Err(error.clone().into());
        }
        let client = self.client.clone().map_or(ClientAuth::Anonymous, |id| ClientAuth::Public { id });
        let reply = asking.send_assertion(&client, assertion.clone()).await;
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

    use super::{Supply, Workload, now};
    use crate::{
        grant::{
            Grant,
            tests::{ENDPOINT, TOKEN, asked, login, stranger},
        },
        jwt::encode,
        scripted::Scripted,
    };

    /// A text that looks signed.
    pub(crate) fn said(claims: &Value) -> Secret {
        Secret::new(format!("{}.{}.{}\n", encode("{}"), encode(claims.to_string()), encode("signature")))
    }

    fn grant(assertion: Secret, audience: Option<&str>) -> Grant {
        Grant::Workload(Workload::new(Arc::new(assertion), None, audience.map(str::to_owned)))
    }

    #[tokio::test]
    async fn the_platforms_word_is_the_grant_and_nothing_else_is_said() {
        for audience in [json!("https://login.example/"), json!(["x", "https://login.example/token"]), json!(null)] {
            let (stranger, said) = (stranger(), said(&json!({ "aud": audience, "exp": now() + 60 })));
            asked(&grant(said.clone(), None), &stranger, &login()).await.unwrap();
            assert_eq!(stranger.field(0, "assertion").as_deref(), Some(said.expose().trim()));
            assert_eq!(stranger.field(0, "grant_type").as_deref(), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
            assert_eq!((stranger.field(0, "client_id"), stranger.form(0).len()), (None, 4));
        }
    }

    #[tokio::test]
    async fn a_word_for_somebody_else_or_of_yesterday_is_not_sent() {
        let stranger = stranger();
        let foreign = said(&json!({ "aud": "https://cloud.example" }));
        let refused = asked(&grant(foreign.clone(), None), &stranger, &login()).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the assertion is for https://cloud.example and not for https://login.example or \
             https://login.example/token; it was not sent"
        );
        let old = said(&json!({ "aud": "https://login.example", "exp": 1 }));
        for (assertion, audience) in
            [(old, None), (foreign.clone(), Some("https://other.example")), (Secret::new(" \n"), None)]
        {
            asked(&grant(assertion, audience), &stranger, &login()).await.unwrap_err();
        }
        assert!(stranger.asked().is_empty());
        asked(&grant(foreign, Some("https://cloud.example")), &stranger, &login()).await.unwrap();
        asked(&grant(Secret::new("opaque-word"), None), &stranger, &login()).await.unwrap();
    }

    #[derive(Debug)]
    struct Replaced(Mutex<Secret>);

    impl Supply for Replaced {
        fn supply(&self) -> BoxFuture<'_, Result<Secret, String>> {
            let text = self.0.lock().clone();
            Box::pin(async { Ok(text) })
        }
    }

    #[tokio::test]
    async fn a_refused_word_is_not_sent_again_and_a_new_one_is() {
        let refusal = r#"{"error":"invalid_grant","error_description":"not you"}"#;
        let stranger = Arc::<Scripted>::default().answer(ENDPOINT, 400, refusal).answer(ENDPOINT, 200, TOKEN);
        let words = Arc::new(Replaced(Mutex::new(Secret::new("first-word"))));
        let grant = Grant::Workload(Workload::new(Arc::clone(&words) as Arc<dyn Supply>, Some("me".to_owned()), None));
        for _ in 0..3 {
            let refused = asked(&grant, &stranger, &login()).await.unwrap_err().to_string();
            assert_eq!(refused, "https://login.example/token refuses: invalid_grant (not you)");
        }
        assert_eq!(stranger.asked().len(), 1);
        *words.0.lock() = Secret::new("second-word");
        asked(&grant, &stranger, &login()).await.unwrap();
        assert_eq!(stranger.field(1, "client_id").as_deref(), Some("me"));
        assert!(!format!("{grant:?}").contains("-word"));
    }
}
