//! What a server's process sees of the user's environment: a short list, and what its entry names.
//!
//! A program found on the internet has no business with the tokens in somebody's shell. The environment itself comes
//! in as a value; nothing here reads ours.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// Variables by name.
pub type Environment = BTreeMap<OsString, OsString>;

/// Handed on to every server, besides every name that begins with [`LOCALE`].
pub const HANDED_ON: &[&str] = if cfg!(windows) { &WINDOWS } else { &UNIX };

/// The rest of the locale.
pub const LOCALE: &str = "LC_";

const UNIX: [&str; 9] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Without some of these hardly any program starts there.
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

/// Whether `Path` and `PATH` are two variables.
#[derive(Clone, Copy)]
enum Letters {
    Differ,
    Fold,
}

/// The environment of a server's process: what is handed on of `ours`, and over it what its entry names.
pub fn of_server(ours: &Environment, named: &Environment) -> Environment {
    let letters = if cfg!(windows) { Letters::Fold } else { Letters::Differ };
    seen(ours, named, HANDED_ON, letters)
}

fn seen(ours: &Environment, named: &Environment, list: &[&str], letters: Letters) -> Environment {
    let is_named = |name: &OsStr| named.keys().any(|other| letters.are_same(name, other));
    let is_listed = |name: &OsStr| list.iter().any(|listed| letters.are_same(name, OsStr::new(listed)));
    let is_locale = |name: &OsStr| name.as_encoded_bytes().starts_with(LOCALE.as_bytes());
    let handed_on = ours.iter().filter(|(name, _)| (is_listed(name) || is_locale(name)) && !is_named(name));
    handed_on.chain(named).map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl Letters {
    fn are_same(self, one: &OsStr, other: &OsStr) -> bool {
        match self {
            Self::Differ => one == other,
            Self::Fold => one.eq_ignore_ascii_case(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Environment, Letters, UNIX, WINDOWS, seen};

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_server_sees_the_list_and_what_its_entry_names() {
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
        assert_eq!(seen(&ours, &named, &UNIX, Letters::Differ), expected);
    }
    #[test]
    fn where_letters_do_not_count_an_entry_still_goes_over_ours() {
        let ours = environment(&[("Path", r"C:\Windows"), ("SystemRoot", r"C:\Windows"), ("TOKEN", "s3cret")]);
        let named = environment(&[("PATH", r"C:\tools")]);
        let expected = environment(&[("PATH", r"C:\tools"), ("SystemRoot", r"C:\Windows")]);
        assert_eq!(seen(&ours, &named, &WINDOWS, Letters::Fold), expected);
    }
}
