//! Which headers can be sent at all: the letters HTTP allows.

/// Letters of a name besides letters and digits.
const OF_NAMES: &[u8] = b"!#$%&'*+-.^_`|~";

/// What is wrong with a header, if anything; never what it holds.
pub(crate) fn problem(name: &str, value: &str) -> Option<&'static str> {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || OF_NAMES.contains(&byte);
    if name.is_empty() || !name.bytes().all(of_name) {
        return Some("a header whose name is letters, digits and `-`");
    }
    let of_value = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    (!value.bytes().all(of_value)).then_some("on one line, in plain ASCII letters")
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn what_http_does_not_carry_is_no_header() {
        for (name, value) in [("Authorization", "Bearer a b"), ("x_y.z", "\tq=1; \"w\""), ("X", "")] {
            assert_eq!(problem(name, value), None, "{name}");
        }
        for (name, value) in
            [("", "x"), ("a b", "x"), ("Größe", "x"), ("a:", "x"), ("a", "x\ny"), ("a", "Ä"), ("a", "\0")]
        {
            assert!(problem(name, value).is_some(), "{name}: {value}");
        }
    }
}
