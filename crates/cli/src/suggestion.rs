//! Spelling suggestions for unknown names.

/// `; did you mean `x`?` to append to a message, or nothing if no known name is similar.
pub(crate) fn did_you_mean<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wanted, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// The most similar known name, if it is similar enough.
fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
    fn typo_suggests_the_nearest_name() {
        let known = ["get-sum", "echo", "get-tiny-image"];
        assert_eq!(super::nearest("get-sun", known), Some("get-sum"));
        assert_eq!(super::nearest("ECO", known), Some("echo"));
        assert_eq!(super::nearest("zebra", known), None);
    }
}
