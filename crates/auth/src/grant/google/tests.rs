//! Tests of service accounts, authorized users, the metadata server and invalid files.

use std::{path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use http::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::{
    grant::tests::TOKEN,
    jwt::tests::{P256, RSA},
    scripted::ScriptedFetch,
};

/// A metadata server that answers with this flavor.
#[derive(Debug)]
struct Answering {
    status: u16,
    flavour: &'static str,
    body: &'static str,
    requests: Mutex<Vec<Request<Bytes>>>,
}

impl Fetch for Answering {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        self.requests.lock().push(request);
        let answer = Response::builder().status(self.status).header(FLAVOR_HEADER, self.flavour);
        Box::pin(async { Ok(answer.body(Bytes::from(self.body)).unwrap()) })
    }
}

/// A host that cannot be reached.
#[derive(Debug)]
struct Unreachable;

impl Fetch for Unreachable {
    fn fetch(&self, _request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let (target, reason) = ("the machine".to_owned(), "no such name".to_owned());
        Box::pin(async { Err(FetchError::Unreachable { target, reason }) })
    }
}

fn machine(fetch: Arc<dyn Fetch>) -> GoogleMetadataServer {
    GoogleMetadataServer { url: Url::parse(METADATA_URL).unwrap(), fetch }
}

fn google(file: Option<&Path>, remote: &Arc<ScriptedFetch>) -> Google {
    let places = CredentialPaths { configured: file.map(Path::to_owned), ..CredentialPaths::default() };
    Google { places, fetch: Arc::clone(remote) as Arc<dyn Fetch>, machine: machine(Arc::new(Unreachable)) }
}

fn remote() -> Arc<ScriptedFetch> {
    Arc::<ScriptedFetch>::default().answer(TOKEN_ENDPOINT, 200, TOKEN)
}

fn written(folder: &tempfile::TempDir, content: &Value) -> PathBuf {
    let path = folder.path().join("credentials.json");
    std::fs::write(&path, content.to_string()).unwrap();
    path
}

fn account() -> Value {
    json!({
        "type": "service_account", "client_email": "robot@project.example", "private_key": RSA,
        "private_key_id": "key-7", "token_uri": TOKEN_ENDPOINT, "universe_domain": "googleapis.com"
    })
}

#[tokio::test]
async fn service_account_signs_its_request() {
    let (folder, remote) = (tempfile::tempdir().unwrap(), remote());
    let google = google(Some(&written(&folder, &account())), &remote);
    assert_eq!(google.request_token(&Scopes::default()).await.unwrap().token.expose(), "t0ken");
    let assertion = remote.field(0, "assertion").unwrap();
    let part = |place| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(assertion.split('.').nth(place).unwrap()).unwrap()).unwrap()
    };
    assert_eq!(part(0), json!({ "alg": "RS256", "typ": "JWT", "kid": "key-7" }));
    assert_eq!((&part(1)["iss"], &part(1)["aud"]), (&json!("robot@project.example"), &json!(TOKEN_ENDPOINT)));
    assert_eq!(part(1)["scope"], json!(DEFAULT_SCOPE));
    assert_eq!(remote.form(0).len(), 2, "only the grant");
    google.request_token(&Scopes::parse("one two").unwrap()).await.unwrap();
    assert!(!format!("{google:?}").contains("MIIE"));
}

#[tokio::test]
async fn authorized_user_is_refreshed_without_scopes() {
    let (folder, remote) = (tempfile::tempdir().unwrap(), remote());
    let person = json!({
        "type": "authorized_user", "client_id": "gcloud", "client_secret": "s3cret", "refresh_token": "r3fresh",
        "account": ""
    });
    google(Some(&written(&folder, &person)), &remote).request_token(&Scopes::default()).await.unwrap();
    let sent: Vec<_> = remote.form(0).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(sent, ["grant_type=refresh_token", "refresh_token=r3fresh", "client_id=gcloud", "client_secret=s3cret"]);
}

#[tokio::test]
async fn metadata_server_is_used_if_there_is_no_file() {
    let answering = Arc::new(Answering { status: 200, flavour: "Google", body: TOKEN, requests: Mutex::default() });
    let folder = tempfile::tempdir().unwrap();
    let google = Google {
        places: CredentialPaths::new(None, None, Some(folder.path().to_owned())),
        machine: machine(Arc::clone(&answering) as Arc<dyn Fetch>),
        ..google(None, &remote())
    };
    let reply = google.request_token(&Scopes::parse("https://a.example https://b.example").unwrap()).await.unwrap();
    assert_eq!((reply.token.expose(), reply.expires_in), ("t0ken", Some(Duration::from_secs(3600))));
    let heard = answering.requests.lock();
    assert_eq!(heard[0].uri().path(), "/computeMetadata/v1/instance/service-accounts/default/token");
    assert_eq!(heard[0].uri().query(), Some("scopes=https%3A%2F%2Fa.example%2Chttps%3A%2F%2Fb.example"));
    assert_eq!(heard[0].headers()[FLAVOR_HEADER], "Google");
}

#[tokio::test]
async fn responses_without_the_flavor_header_are_refused() {
    for (status, flavour, body) in [(200, "Vanilla", TOKEN), (404, "Google", TOKEN), (200, "Google", "<html>")] {
        let answering = Arc::new(Answering { status, flavour, body, requests: Mutex::default() });
        let google = Google { machine: machine(answering), ..google(None, &remote()) };
        let refused = google.request_token(&Scopes::default()).await.unwrap_err();
        assert!(matches!(refused, GrantError::Token(TokenError::Malformed { .. })), "{refused}");
    }
    let unreachable = google(None, &remote()).request_token(&Scopes::default()).await.unwrap_err().to_string();
    assert!(unreachable.contains("gcloud auth application-default login"), "{unreachable}");
}

#[tokio::test]
async fn precedence_is_googles_and_a_named_file_must_exist() {
    let (folder, remote) = (tempfile::tempdir().unwrap(), remote());
    let there = written(&folder, &account());
    let missing = folder.path().join("missing.json");
    let gcloud = folder.path().join("gcloud");
    std::fs::create_dir(&gcloud).unwrap();
    std::fs::copy(&there, gcloud.join("application_default_credentials.json")).unwrap();
    let home = Some(folder.path().to_owned());
    for (configured, variable, found) in [
        (Some(&there), Some(&missing), true),
        (None, Some(&there), true),
        (None, None, true),
        (Some(&missing), Some(&there), false),
        (None, Some(&missing), false),
    ] {
        let places = CredentialPaths::new(configured.cloned(), variable.cloned(), home.clone());
        let google = Google { places, ..google(None, &remote) };
        let asked = google.request_token(&Scopes::default()).await;
        assert_eq!(asked.is_ok(), found, "{configured:?} {variable:?}: {asked:?}");
    }
}

#[tokio::test]
async fn invalid_file_is_reported_without_its_content() {
    let (folder, remote) = (tempfile::tempdir().unwrap(), remote());
    let with = |name: &str, value: Value| {
        let mut changed = account();
        changed[name] = value;
        changed
    };
    for (content, said) in [
        (json!("s3cret"), "is not a Google credentials file"),
        (with("token_uri", json!("http://oauth2.googleapis.com/token")), "`token_uri` that does not use https"),
        (with("token_uri", json!("https://x@oauth2.googleapis.com/token")), "`token_uri` that does not use https"),
        (with("private_key", json!(null)), "has no `private_key`"),
        (with("private_key", json!("s3cret")), "has no usable key"),
        (with("client_email", json!(null)), "has no `client_email`"),
        (with("type", json!("external_account")), "has the type `external_account`, which refers to further"),
        (with("type", json!("s3cret")), "has neither the type `service_account` nor `authorized_user`"),
        (json!({ "type": "authorized_user", "client_id": "s3cret" }), "has no `client_secret`"),
        (json!("x".repeat(70_000)), "exceeds 65536 bytes"),
    ] {
        let refused =
            google(Some(&written(&folder, &content)), &remote).request_token(&Scopes::default()).await.unwrap_err();
        assert!(refused.to_string().contains(said), "{refused}");
        assert!(!format!("{refused:?}").contains("s3cret"));
    }
    let curve = google(Some(&written(&folder, &with("private_key", json!(P256)))), &remote);
    assert!(matches!(curve.request_token(&Scopes::default()).await, Err(GrantError::Key(_))));
    assert!(remote.urls().is_empty());
}
