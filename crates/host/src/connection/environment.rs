//! The environment of a server process: an allow list of the user's variables, and those of its entry.
//!
//! Server programs must not see the tokens in the user's shell. They do get the variables that a network needs: the
//! files of certificate authorities, and proxies without credentials. The environment is passed in as a value; nothing here
//! reads that of this process.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// Variables by name.
pub type Environment = BTreeMap<OsString, OsString>;

/// Variables passed to every server, besides those that begin with [`LOCALE`], certificates and proxies.
pub const PASSED_ON: &[&str] = if cfg!(windows) { &WINDOWS } else { &UNIX };

/// Prefix of the locale variables.
pub const LOCALE: &str = "LC_";

/// Files of certificate authorities, which a network with its own needs.
const CERTIFICATES: [&str; 4] = ["NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"];

/// Proxy variables, in upper or lower case; passed unless the value contains credentials.
const PROXIES: [&str; 4] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];

const UNIX: [&str; 9] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Most Windows programs need some of these to start.
const WINDOWS: [&str; 22] = [
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TZ",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Whether `Path` and `PATH` are different variables.
#[derive(Clone, Copy)]
enum CaseRule {
    Sensitive,
    Insensitive,
}

/// The environment of a server process: the allowed part of `ours`, overridden by the variables of its entry.
pub fn of_server(ours: &Environment, named: &Environment) -> Environment {
    let case = if cfg!(windows) { CaseRule::Insensitive } else { CaseRule::Sensitive };
    merged(ours, named, PASSED_ON, case)
}

fn merged(ours: &Environment, named: &Environment, list: &[&str], case: CaseRule) -> Environment {
    let is_named = |name: &OsStr| named.keys().any(|other| case.are_same(name, other));
    let is_listed = |name: &OsStr| list.iter().any(|listed| case.are_same(name, OsStr::new(listed)));
    let is_locale = |name: &OsStr| name.as_encoded_bytes().starts_with(LOCALE.as_bytes());
    let passed_on = ours
        .iter()
        .filter(|(name, value)| (is_listed(name) || is_locale(name) || is_for_network(name, value)) && !is_named(name));
    passed_on.chain(named).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The names of the user's variables that a server with this environment does not get, proxies with credentials first.
pub fn withheld(ours: &Environment, of_server: &Environment) -> Vec<OsString> {
    let mut names: Vec<OsString> = ours.keys().filter(|name| !of_server.contains_key(*name)).cloned().collect();
    names.sort_by_key(|name| !is_proxy(name));
    names
}

/// Whether a variable names certificate authorities, or a proxy without credentials.
fn is_for_network(name: &OsStr, value: &OsStr) -> bool {
    let is_certificate = CERTIFICATES.iter().any(|known| name == OsStr::new(known));
    // `@` separates the credentials of a URL from its host.
    is_certificate || is_proxy(name) && !value.as_encoded_bytes().contains(&b'@')
}

fn is_proxy(name: &OsStr) -> bool {
    PROXIES.iter().any(|known| name == OsStr::new(known) || name == OsStr::new(&known.to_ascii_lowercase()))
}

impl CaseRule {
    fn are_same(self, one: &OsStr, other: &OsStr) -> bool {
        match self {
            Self::Sensitive => one == other,
            Self::Insensitive => one.eq_ignore_ascii_case(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CaseRule, Environment, UNIX, WINDOWS, merged, withheld};

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn server_sees_allowed_variables_and_those_of_its_entry() {
        let ours = environment(&[
            ("AWS_SECRET_ACCESS_KEY", "s3cret"),
            ("HOME", "/home/ada"),
            ("LC_ALL", "C.UTF-8"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("PATH", "/bin"),
            ("path", "/tmp"),
        ]);
        let named = environment(&[("PATH", "/opt/bin"), ("API_KEY", "for this server")]);
        let expected = environment(&[
            ("API_KEY", "for this server"),
            ("HOME", "/home/ada"),
            ("LC_ALL", "C.UTF-8"),
            ("PATH", "/opt/bin"),
        ]);
        assert_eq!(merged(&ours, &named, &UNIX, CaseRule::Sensitive), expected);
    }

    #[test]
    fn certificates_and_proxies_without_credentials_are_passed() {
        let passed = [
            ("HTTP_PROXY", "http://proxy:3128"),
            ("NODE_EXTRA_CA_CERTS", "/etc/ca.pem"),
            ("REQUESTS_CA_BUNDLE", "/etc/ca.pem"),
            ("SSL_CERT_DIR", "/etc/ssl"),
            ("SSL_CERT_FILE", "/etc/ca.pem"),
            ("https_proxy", "proxy:3128"),
            ("no_proxy", "localhost,.corp"),
        ];
        let mut ours = environment(&passed);
        ours.extend(environment(&[("ALL_PROXY", "socks5://ada:s3cret@proxy"), ("AAA_TOKEN", "s3cret")]));
        let given = merged(&ours, &Environment::new(), &UNIX, CaseRule::Sensitive);
        assert_eq!(given, environment(&passed));
        assert_eq!(withheld(&ours, &given), ["ALL_PROXY", "AAA_TOKEN"]);
    }

    #[test]
    fn entry_overrides_variables_case_insensitively() {
        let ours = environment(&[("Path", r"C:\Windows"), ("SystemRoot", r"C:\Windows"), ("TOKEN", "s3cret")]);
        let named = environment(&[("PATH", r"C:\tools")]);
        let expected = environment(&[("PATH", r"C:\tools"), ("SystemRoot", r"C:\Windows")]);
        assert_eq!(merged(&ours, &named, &WINDOWS, CaseRule::Insensitive), expected);
    }
}
