//! Spelling suggestions for unknown names.

/// `; did you mean `x`?` to append to a message, or nothing if no known name is similar.
pub(crate) fn did_you_mean<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wanted, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// The most similar known name, if it is similar enough.
pub(crate) fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.75;
    let wanted = wanted.to_lowercase();
    let score = |name: &str| similarity(&wanted, &name.to_lowercase());
    known
        .into_iter()
        .map(|name| (score(name), name))
        .filter(|(score, _)| NEAR <= *score)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}

/// Similarity between 0 and 1. Of public names of the same server only what follows the server is compared.
fn similarity(wanted: &str, name: &str) -> f64 {
    match (wanted.split_once("__"), name.split_once("__")) {
        (Some((server, wanted)), Some((other, name))) if server == other => strsim::jaro_winkler(wanted, name),
        _ => strsim::jaro_winkler(wanted, name),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn typo_suggests_the_nearest_name() {
        let known = ["get-sum", "echo", "get-tiny-image"];
        assert_eq!(super::nearest("get-sun", known), Some("get-sum"));
        assert_eq!(super::nearest("ECO", known), Some("echo"));
        assert_eq!(super::nearest("zebra", known), None);
        let public = ["every__get-resource-links", "every__get-sum"];
        assert_eq!(super::nearest("every__trigger-elicitation-request", public), None);
        assert_eq!(super::nearest("every__get-sun", public), Some("every__get-sum"));
    }
}
