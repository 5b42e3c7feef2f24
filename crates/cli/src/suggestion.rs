//! Did you mean.

/// The name that is probably meant, if one is near enough.
pub(crate) fn to<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.75;
    let wanted = wanted.to_lowercase();
    let score = |name: &str| strsim::jaro_winkler(&wanted, &name.to_lowercase());
    known
        .into_iter()
        .map(|name| (score(name), name))
        .filter(|(score, _)| NEAR <= *score)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_slip_of_the_finger_is_understood() {
        let known = ["get-sum", "echo", "get-tiny-image"];
        assert_eq!(super::to("get-sun", known), Some("get-sum"));
        assert_eq!(super::to("ECO", known), Some("echo"));
        assert_eq!(super::to("zebra", known), None);
    }
}
