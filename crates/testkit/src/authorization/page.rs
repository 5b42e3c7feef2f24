//! The authorization endpoint: redirects at once, or after a click.

use url::{Url, form_urlencoded};

use super::{Shared, ledger::Consent, quirks::Quirk};
use crate::odd::http::{RecordedRequest, Reply};

/// Cookie with the name of the user; without it, the name is `anonymous`.
pub const WHO: &str = "who";

/// Redirects the browser, or shows the consent page.
pub(super) fn visit(shared: &Shared, seen: &RecordedRequest) -> Reply {
    let query = seen.path.split_once('?').map_or("", |(_, query)| query);
    let quirks = shared.quirks();
    if let Some(other) =
        quirks.find_quirk(|quirk| if let Quirk::RedirectsTo(place) = quirk { Some(place.clone()) } else { None })
    {
        return Reply::empty(302).header("Location", format!("{other}?{query}"));
    }
    let request = AuthorizationRequest::read(query);
    if let Err(problem) = request.check(shared) {
        return Reply::body(400, "text/plain", problem);
    }
    if quirks.has(&Quirk::ConsentPage) && !request.has("agreed") {
        return button(query);
    }
    let result = match request.has("refused") {
        true => ("error", "access_denied".to_owned()),
        false => ("code", shared.ledger().new_code(request.consent(who(seen)))),
    };
    Reply::empty(302).header("Location", callback(shared, &request, result)).header("Cache-Control", "no-store")
}

/// Parameters of an authorization request.
struct AuthorizationRequest(Vec<(String, String)>);

impl AuthorizationRequest {
    fn read(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    fn check(&self, shared: &Shared) -> Result<(), &'static str> {
        let client = shared.client(self.get("client_id")).ok_or("unknown client\n")?;
        let redirect = self.get("redirect_uri");
        let on_this_machine = Url::parse(redirect).is_ok_and(|url| url.host_str() == Some("127.0.0.1"));
        let any = client.redirects.is_empty() && on_this_machine;
        if !any && !client.redirects.iter().any(|known| known == redirect) {
            return Err("unknown redirect_uri\n");
        }
        let complete = self.get("response_type") == "code" && self.get("code_challenge_method") == "S256";
        if !complete || self.get("code_challenge").len() != 43 || self.get("state").is_empty() {
            return Err("response_type, code_challenge and state are required\n");
        }
        if self.get("resource").is_empty() { Err("resource is required\n") } else { Ok(()) }
    }

    fn consent(&self, subject: String) -> Consent {
        let text = |name| self.get(name).to_owned();
        Consent {
            client: text("client_id"),
            redirect: text("redirect_uri"),
            challenge: text("code_challenge"),
            resource: text("resource"),
            scope: text("scope"),
            subject,
        }
    }
}

fn who(seen: &RecordedRequest) -> String {
    let cookies = seen.header("cookie").unwrap_or_default();
    let result = cookies.split("; ").find_map(|cookie| cookie.strip_prefix(WHO)?.strip_prefix('='));
    result.unwrap_or("anonymous").to_owned()
}

fn callback(shared: &Shared, request: &AuthorizationRequest, (name, value): (&str, String)) -> String {
    let quirks = shared.quirks();
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair(name, &value).append_pair("state", request.get("state"));
    let other = quirks.find_quirk(|quirk| if let Quirk::WrongIss(name) = quirk { Some(name.clone()) } else { None });
    if !quirks.has(&Quirk::NoIss) && !quirks.has(&Quirk::OmitsIss) {
        query.append_pair("iss", &other.unwrap_or_else(|| shared.issuer()));
    }
    format!("{}?{}", request.get("redirect_uri"), query.finish())
}

/// A consent page with two buttons, which repeat the request with consent or refusal.
fn button(query: &str) -> Reply {
    let fields: String = form_urlencoded::parse(query.as_bytes())
        .map(|(name, value)| format!("<input type=hidden name=\"{}\" value=\"{}\">", plain(&name), plain(&value)))
        .collect();
    let page = format!(
        "<!doctype html><meta charset=utf-8><title>Sign in</title><form action=/authorize method=get>{fields}\
         <input type=hidden name=agreed value=yes><button id=agree>Agree</button>\
         <button id=refuse name=refused value=yes>Refuse</button></form>"
    );
    Reply::body(200, "text/html; charset=utf-8", page)
}

fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}
