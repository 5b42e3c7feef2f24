//! Checks of HTTP header names and values.

/// Characters allowed in a header name besides letters and digits.
const OF_NAMES: &[u8] = b"!#$%&'*+-.^_`|~";

/// What the header must be, after "must be", if it is invalid. Never contains the value.
pub(crate) fn problem(name: &str, value: &str) -> Option<&'static str> {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || OF_NAMES.contains(&byte);
    if name.is_empty() || !name.bytes().all(of_name) {
        return Some("a valid header name (letters, digits and `-`)");
    }
    let of_value = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    (!value.bytes().all(of_value)).then_some("a single line of printable ASCII characters")
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn names_and_values_that_http_does_not_allow_are_refused() {
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
