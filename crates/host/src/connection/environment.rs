//! The environment of a server process: an allow list of the user's variables, and those of its entry.
//!
//! Server programs must not see the tokens in the user's shell. The environment is passed in as a value; nothing here
//! reads that of this process.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// Variables by name.
pub type Environment = BTreeMap<OsString, OsString>;

/// Variables passed to every server, besides those that begin with [`LOCALE`].
pub const PASSED_ON: &[&str] = if cfg!(windows) { &WINDOWS } else { &UNIX };

/// Prefix of the locale variables.
pub const LOCALE: &str = "LC_";

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
    let passed_on = ours.iter().filter(|(name, _)| (is_listed(name) || is_locale(name)) && !is_named(name));
    passed_on.chain(named).map(|(name, value)| (name.clone(), value.clone())).collect()
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
    use super::{CaseRule, Environment, UNIX, WINDOWS, merged};

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
    fn entry_overrides_variables_case_insensitively() {
        let ours = environment(&[("Path", r"C:\Windows"), ("SystemRoot", r"C:\Windows"), ("TOKEN", "s3cret")]);
        let named = environment(&[("PATH", r"C:\tools")]);
        let expected = environment(&[("PATH", r"C:\tools"), ("SystemRoot", r"C:\Windows")]);
        assert_eq!(merged(&ours, &named, &WINDOWS, CaseRule::Insensitive), expected);
    }
}
