//! A service account, a person and a machine, and files that are none of them.

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
    scripted::Scripted,
};

/// A machine that answers with this flavour.
#[derive(Debug)]
struct Answering {
    status: u16,
    flavour: &'static str,
    body: &'static str,
    heard: Mutex<Vec<Request<Bytes>>>,
}

impl Fetch for Answering {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        self.heard.lock().push(request);
        let answer = Response::builder().status(self.status).header(FLAVOUR, self.flavour);
        Box::pin(async { Ok(answer.body(Bytes::from(self.body)).unwrap()) })
    }
}

/// Nobody is there.
#[derive(Debug)]
struct Nobody;

impl Fetch for Nobody {
    fn fetch(&self, _request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let (target, reason) = ("the machine".to_owned(), "no such name".to_owned());
        Box::pin(async { Err(FetchError::Unreachable { target, reason }) })
    }
}

fn machine(fetch: Arc<dyn Fetch>) -> Machine {
    Machine { url: Url::parse(MACHINE).unwrap(), fetch }
}

fn google(file: Option<&Path>, stranger: &Arc<Scripted>) -> Google {
    let places = Places { configured: file.map(Path::to_owned), ..Places::default() };
    Google { places, fetch: Arc::clone(stranger) as Arc<dyn Fetch>, machine: machine(Arc::new(Nobody)) }
}

fn stranger() -> Arc<Scripted> {
    Arc::<Scripted>::default().answer(TOKEN_ENDPOINT, 200, TOKEN)
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
async fn a_service_account_signs_what_it_asks_for() {
    let (folder, stranger) = (tempfile::tempdir().unwrap(), stranger());
    let google = google(Some(&written(&folder, &account())), &stranger);
    assert_eq!(google.ask(&Scopes::default()).await.unwrap().token.expose(), "t0ken");
    let assertion = stranger.field(0, "assertion").unwrap();
    let part = |place| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(assertion.split('.').nth(place).unwrap()).unwrap()).unwrap()
    };
    assert_eq!(part(0), json!({ "alg": "RS256", "typ": "JWT", "kid": "key-7" }));
    assert_eq!((&part(1)["iss"], &part(1)["aud"]), (&json!("robot@project.example"), &json!(TOKEN_ENDPOINT)));
    assert_eq!(part(1)["scope"], json!(ALL));
    assert_eq!(stranger.form(0).len(), 2, "the grant says it all");
    google.ask(&Scopes::parse("one two").unwrap()).await.unwrap();
    assert!(!format!("{google:?}").contains("MIIE"));
}

#[tokio::test]
async fn a_person_agreed_before() {
    let (folder, stranger) = (tempfile::tempdir().unwrap(), stranger());
    let person = json!({
        "type": "authorized_user", "client_id": "gcloud", "client_secret": "s3cret", "refresh_token": "r3fresh",
        "account": ""
    });
    google(Some(&written(&folder, &person)), &stranger).ask(&Scopes::default()).await.unwrap();
    let sent: Vec<_> = stranger.form(0).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(sent, ["grant_type=refresh_token", "refresh_token=r3fresh", "client_id=gcloud", "client_secret=s3cret"]);
}

#[tokio::test]
async fn a_machine_says_who_it_is_where_there_is_no_file() {
    let answering = Arc::new(Answering { status: 200, flavour: "Google", body: TOKEN, heard: Mutex::default() });
    let folder = tempfile::tempdir().unwrap();
    let google = Google {
        places: Places::new(None, None, Some(folder.path().to_owned())),
        machine: machine(Arc::clone(&answering) as Arc<dyn Fetch>),
        ..google(None, &stranger())
    };
    let reply = google.ask(&Scopes::parse("https://a.example https://b.example").unwrap()).await.unwrap();
    assert_eq!((reply.token.expose(), reply.lasts), ("t0ken", Some(Duration::from_secs(3600))));
    let heard = answering.heard.lock();
    assert_eq!(heard[0].uri().path(), "/computeMetadata/v1/instance/service-accounts/default/token");
    assert_eq!(heard[0].uri().query(), Some("scopes=https%3A%2F%2Fa.example%2Chttps%3A%2F%2Fb.example"));
    assert_eq!(heard[0].headers()[FLAVOUR], "Google");
}

#[tokio::test]
async fn whoever_else_answers_is_not_the_machine() {
    for (status, flavour, body) in [(200, "Vanilla", TOKEN), (404, "Google", TOKEN), (200, "Google", "<html>")] {
        let answering = Arc::new(Answering { status, flavour, body, heard: Mutex::default() });
        let google = Google { machine: machine(answering), ..google(None, &stranger()) };
        let refused = google.ask(&Scopes::default()).await.unwrap_err();
        assert!(matches!(refused, GrantError::Token(TokenError::Malformed { .. })), "{refused}");
    }
    let nobody = google(None, &stranger()).ask(&Scopes::default()).await.unwrap_err().to_string();
    assert!(nobody.contains("gcloud auth application-default login"), "{nobody}");
}

#[tokio::test]
async fn the_order_is_googles_and_a_named_file_has_to_be_there() {
    let (folder, stranger) = (tempfile::tempdir().unwrap(), stranger());
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
        let places = Places::new(configured.cloned(), variable.cloned(), home.clone());
        let google = Google { places, ..google(None, &stranger) };
        let asked = google.ask(&Scopes::default()).await;
        assert_eq!(asked.is_ok(), found, "{configured:?} {variable:?}: {asked:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_none_is_said_to_be_none_without_showing_it() {
    let (folder, stranger) = (tempfile::tempdir().unwrap(), stranger());
    let with = |name: &str, value: Value| {
        let mut changed = account();
        changed[name] = value;
        changed
    };
    for (content, said) in [
        (json!("s3cret"), "holds no credentials of Google's"),
        (with("token_uri", json!("http://oauth2.googleapis.com/token")), "token_uri that is not https"),
        (with("token_uri", json!("https://x@oauth2.googleapis.com/token")), "token_uri that is not https"),
        (with("private_key", json!(null)), "has no private_key"),
        (with("private_key", json!("s3cret")), "holds no key"),
        (with("client_email", json!(null)), "has no client_email"),
        (with("type", json!("external_account")), "is of the kind `external_account`, which names others"),
        (with("type", json!("s3cret")), "is neither a service account's key nor a person's"),
        (json!({ "type": "authorized_user", "client_id": "s3cret" }), "has no client_secret"),
        (json!("x".repeat(70_000)), "is longer than any credentials"),
    ] {
        let refused = google(Some(&written(&folder, &content)), &stranger).ask(&Scopes::default()).await.unwrap_err();
        assert!(refused.to_string().contains(said), "{refused}");
        assert!(!format!("{refused:?}").contains("s3cret"));
    }
    let curve = google(Some(&written(&folder, &with("private_key", json!(P256)))), &stranger);
    assert!(matches!(curve.ask(&Scopes::default()).await, Err(GrantError::Key(_))));
    assert!(stranger.asked().is_empty());
}
