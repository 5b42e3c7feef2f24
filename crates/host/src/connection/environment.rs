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
pub const HANDED_ON: [&str; 9] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// The rest of the locale.
pub const LOCALE: &str = "LC_";

/// The environment of a server's process: what is handed on of `ours`, and over it what its entry names.
pub fn of_server(ours: &Environment, named: &Environment) -> Environment {
    let handed_on = ours.iter().filter(|(name, _)| is_handed_on(name));
    handed_on.chain(named).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn is_handed_on(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| HANDED_ON.contains(&name) || name.starts_with(LOCALE))
}

#[cfg(test)]
mod tests {
    use super::{Environment, of_server};

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
        let seen = environment(&[
            ("API_KEY", "for this server"),
            ("HOME", "/home/ada"),
            ("LC_ALL", "C.UTF-8"),
            ("PATH", "/opt/bin"),
        ]);
        assert_eq!(of_server(&ours, &named), seen);
    }
}
