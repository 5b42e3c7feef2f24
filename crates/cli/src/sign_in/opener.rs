//! Opens URLs with the programs in `BROWSER`, else with the desktop's default.
//!
//! URLs come from remote servers. They are passed as one argument or as part of one, never through a shell.

use std::{ffi::OsStr, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};
use toolway_config::Environment;
use url::Url;

use super::PASSPHRASE;

/// Programs that open URLs, each with its arguments, in the order they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Openers(Vec<Vec<String>>);

/// A program that has not failed by then has opened the URL, or is the browser itself.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);
/// The user's programs, separated by `:`; `%s` is replaced by the URL.
const VARIABLE: &str = "BROWSER";
/// The desktop's default program.
const DEFAULT_OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

impl Openers {
    pub(crate) fn of(environment: &Environment) -> Self {
        let named = environment.get(OsStr::new(VARIABLE)).and_then(|text| text.to_str()).unwrap_or_default();
        let named = named.split(':').filter_map(shlex::split).filter(|words| !words.is_empty());
        Self(named.chain([vec![DEFAULT_OPENER.to_owned()]]).collect())
    }

    /// Opens the URL with the first program that succeeds; returns whether one did.
    pub(crate) async fn open(&self, address: &Url) -> bool {
        for words in &self.0 {
            if start(&with(words, address.as_str())).await {
                return true;
            }
        }
        false
    }
}

/// Replaces `%s` by the URL, or appends it.
fn with(words: &[String], address: &str) -> Vec<String> {
    let mut given: Vec<String> = words.iter().map(|word| word.replace("%s", address)).collect();
    if given == words {
        given.push(address.to_owned());
    }
    given
}

#[expect(clippy::disallowed_methods, reason = "a browser belongs to the user and is not supervised like a server")]
async fn start(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(arguments).env_remove(PASSPHRASE);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    timeout(OPEN_TIMEOUT, child.wait()).await.map_or(true, |ended| ended.is_ok_and(|status| status.success()))
}

#[cfg(test)]
mod tests {
    use toolway_config::Environment;

    use super::{DEFAULT_OPENER, Openers, with};

    fn of(named: &str) -> Vec<Vec<String>> {
        Openers::of(&Environment::from([("BROWSER".into(), named.into())])).0
    }

    #[test]
    fn browser_variable_comes_before_the_desktop_default() {
        assert_eq!(Openers::of(&Environment::new()).0, [[DEFAULT_OPENER]]);
        assert_eq!(of(""), [[DEFAULT_OPENER]]);
        assert_eq!(
            of("/opt/my browser:firefox -P 'work mail'::"),
            [vec!["/opt/my", "browser"], vec!["firefox", "-P", "work mail"], vec![DEFAULT_OPENER]]
        );
        assert_eq!(of("'/opt/my browser' --new-tab")[0], ["/opt/my browser", "--new-tab"]);
        assert_eq!(of("half 'a word"), [[DEFAULT_OPENER]], "unclosed quote");
    }

    #[test]
    fn url_stays_one_argument() {
        let address = "https://login.example/?a=b&c=$(id);d='e%s'";
        let words = |text: &str| shlex::split(text).unwrap();
        assert_eq!(with(&words("firefox"), address), ["firefox", address]);
        assert_eq!(with(&words("app --url=%s -x"), address), ["app", &format!("--url={address}"), "-x"]);
    }
}
