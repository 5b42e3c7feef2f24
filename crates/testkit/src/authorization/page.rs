//! Where a person signs in: at once, or after a button was pressed.

use url::{Url, form_urlencoded};

use super::{Shared, conduct::Quirk, ledger::Consent};
use crate::odd::http::{Reply, Seen};

/// What a browser sends along to say who sits in front of it; without it, it is somebody.
pub const WHO: &str = "who";

/// Sends the browser on, or shows the button that does.
pub(super) fn visit(shared: &Shared, seen: &Seen) -> Reply {
    let query = seen.path.split_once('?').map_or("", |(_, query)| query);
    let conduct = shared.conduct();
    if let Some(other) =
        conduct.told(|quirk| if let Quirk::SendsPeopleTo(place) = quirk { Some(place.clone()) } else { None })
    {
        return Reply::empty(302).header("Location", format!("{other}?{query}"));
    }
    let asked = Asked::read(query);
    if let Err(problem) = asked.check(shared) {
        return Reply::body(400, "text/plain", problem);
    }
    if conduct.has(&Quirk::Button) && !asked.has("agreed") {
        return button(query);
    }
    let said = match asked.has("refused") {
        true => ("error", "access_denied".to_owned()),
        false => ("code", shared.ledger().new_code(asked.consent(who(seen)))),
    };
    Reply::empty(302).header("Location", callback(shared, &asked, said)).header("Cache-Control", "no-store")
}

/// What an authorization request asks for.
struct Asked(Vec<(String, String)>);

impl Asked {
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
            return Err("a code, a challenge and a state are needed\n");
        }
        if self.get("resource").is_empty() { Err("for which resource?\n") } else { Ok(()) }
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

fn who(seen: &Seen) -> String {
    let cookies = seen.header("cookie").unwrap_or_default();
    let said = cookies.split("; ").find_map(|cookie| cookie.strip_prefix(WHO)?.strip_prefix('='));
    said.unwrap_or("somebody").to_owned()
}

fn callback(shared: &Shared, asked: &Asked, (name, value): (&str, String)) -> String {
    let conduct = shared.conduct();
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair(name, &value).append_pair("state", asked.get("state"));
    let other = conduct.told(|quirk| if let Quirk::CallbackFrom(name) = quirk { Some(name.clone()) } else { None });
    if !conduct.has(&Quirk::NamesNobody) && !conduct.has(&Quirk::Nameless) {
        query.append_pair("iss", &other.unwrap_or_else(|| shared.issuer()));
    }
    format!("{}?{}", asked.get("redirect_uri"), query.finish())
}

/// A page with two buttons, which ask the same again and agree or do not.
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
