//! What opens addresses here: the programs that `BROWSER` names, else what the desktop has.
//!
//! An address comes from a stranger. It is given to a program as one argument, or as a part of one; no shell sees it.

use std::{ffi::OsStr, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};
use toolway_config::Environment;
use url::Url;

use super::PASSPHRASE;

/// Programs that open addresses, each with its arguments, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Openers(Vec<Vec<String>>);

/// One that has not failed by then has done it, or is the browser itself.
const TO_OPEN: Duration = Duration::from_millis(500);
/// Names the programs of the person's choice, with `:` between them; `%s` stands for the address.
const VARIABLE: &str = "BROWSER";
/// What desktops have.
const USUAL: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

impl Openers {
    pub(crate) fn of(environment: &Environment) -> Self {
        let named = environment.get(OsStr::new(VARIABLE)).and_then(|text| text.to_str()).unwrap_or_default();
        let named = named.split(':').filter_map(shlex::split).filter(|words| !words.is_empty());
        Self(named.chain([vec![USUAL.to_owned()]]).collect())
    }

    /// Gives the address to the first that takes it; whether one did.
    pub(crate) async fn open(&self, address: &Url) -> bool {
        for words in &self.0 {
            if start(&with(words, address.as_str())).await {
                return true;
            }
        }
        false
    }
}

/// The words with the address in its place, or at their end.
fn with(words: &[String], address: &str) -> Vec<String> {
    let mut given: Vec<String> = words.iter().map(|word| word.replace("%s", address)).collect();
    if given == words {
        given.push(address.to_owned());
    }
    given
}

#[expect(clippy::disallowed_methods, reason = "a browser is the person's, not a server that is kept")]
async fn start(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(arguments).env_remove(PASSPHRASE);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    timeout(TO_OPEN, child.wait()).await.map_or(true, |ended| ended.is_ok_and(|status| status.success()))
}

#[cfg(test)]
mod tests {
    use toolway_config::Environment;

    use super::{Openers, USUAL, with};

    fn of(named: &str) -> Vec<Vec<String>> {
        Openers::of(&Environment::from([("BROWSER".into(), named.into())])).0
    }

    #[test]
    fn what_the_person_names_comes_before_what_the_desktop_has() {
        assert_eq!(Openers::of(&Environment::new()).0, [[USUAL]]);
        assert_eq!(of(""), [[USUAL]]);
        assert_eq!(
            of("/opt/my browser:firefox -P 'work mail'::"),
            [vec!["/opt/my", "browser"], vec!["firefox", "-P", "work mail"], vec![USUAL]]
        );
        assert_eq!(of("'/opt/my browser' --new-tab")[0], ["/opt/my browser", "--new-tab"]);
        assert_eq!(of("half 'a word"), [[USUAL]], "nobody knows what was meant");
    }

    #[test]
    fn an_address_stays_one_argument_whatever_is_in_it() {
        let address = "https://login.example/?a=b&c=$(id);d='e%s'";
        let words = |text: &str| shlex::split(text).unwrap();
        assert_eq!(with(&words("firefox"), address), ["firefox", address]);
        assert_eq!(with(&words("app --url=%s -x"), address), ["app", &format!("--url={address}"), "-x"]);
    }
}
