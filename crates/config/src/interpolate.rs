//! `${NAME}` and `${NAME:-default}` in strings.
//!
//! A name without a value and without a default is an error: a guessed text sent as a credential is worse than
//! none. Anything else with a dollar sign stays as it is.

use std::ffi::OsStr;

use crate::paths::Environment;

/// The name that has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unset(pub String);

/// `text` with its variables replaced.
pub fn expand(text: &str, environment: &Environment) -> Result<String, Unset> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        expanded.push_str(&rest[..start]);
        let Some((variable, after)) = Variable::read(&rest[start + 2..]) else {
            expanded.push_str("${");
            rest = &rest[start + 2..];
            continue;
        };
        expanded.push_str(&variable.value(environment)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

struct Variable<'a> {
    name: &'a str,
    default: Option<&'a str>,
}

impl<'a> Variable<'a> {
    /// The variable at the beginning of `text`, and what stands after its brace.
    fn read(text: &'a str) -> Option<(Self, &'a str)> {
        let (inside, after) = text.split_once('}')?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        // `${env:NAME}` is how some editors write it.
        let name = name.strip_prefix("env:").unwrap_or(name);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_name = name.bytes().all(plain) && name.starts_with(|first: char| !first.is_ascii_digit());
        is_name.then_some((Self { name, default }, after))
    }

    fn value(&self, environment: &Environment) -> Result<String, Unset> {
        let set = environment.get(OsStr::new(self.name)).and_then(|value| value.to_str());
        // As in a shell, `:-` also stands in for an empty value.
        match (set, self.default) {
            (Some(value), None) => Ok(value.to_owned()),
            (Some(value), Some(_)) if !value.is_empty() => Ok(value.to_owned()),
            (_, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(Unset(self.name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Environment, Unset, expand};

    #[test]
    fn variables_become_their_values() {
        let environment: Environment = [("TOKEN".into(), "t0k".into()), ("EMPTY".into(), "".into())].into();
        for (text, expanded) in [
            ("Bearer ${TOKEN}", "Bearer t0k"),
            ("${TOKEN}${env:TOKEN}", "t0kt0k"),
            ("${NONE:-x}${EMPTY:-y}[${EMPTY}]", "xy[]"),
            ("$TOKEN costs 5$ {TOKEN}", "$TOKEN costs 5$ {TOKEN}"),
            ("${not a name} ${", "${not a name} ${"),
            ("${TOKEN", "${TOKEN"),
        ] {
            assert_eq!(expand(text, &environment).as_deref(), Ok(expanded), "{text}");
        }
    }

    #[test]
    fn a_variable_without_a_value_is_an_error() {
        assert_eq!(expand("${TOKEN}", &Environment::new()), Err(Unset("TOKEN".to_owned())));
    }

    #[test]
    fn what_a_variable_holds_is_not_expanded_again() {
        let environment: Environment = [("A".into(), "${B}".into()), ("B".into(), "b".into())].into();
        assert_eq!(expand("${A}", &environment).as_deref(), Ok("${B}"));
    }
}
