//! Quotes inside of a URL, which a shell removes: `"https://"a.example`, `'https'://a.example`, `https:""//a.example`.

/// Characters that quote text in a shell and in most languages.
const QUOTES: &[char] = &['"', '\'', '`'];

/// A text without the quotes between a scheme, its colon, its slashes and its host; `None` if there are none. Quotes that
/// end a text before other punctuation stay: `["http://","https://"]` names no host.
pub(super) fn without_quotes(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut copied = 0;
    for (colon, _) in text.match_indices(':') {
        if colon < copied {
            continue;
        }
        let is_quote = |c: char| QUOTES.contains(&c);
        let before = &text[copied..colon];
        let scheme = before.trim_end_matches(is_quote);
        let after = &text[colon + 1..];
        let host = after.trim_start_matches(|c: char| is_quote(c) || matches!(c, '/' | '\\'));
        let between = &after[..after.len() - host.len()];
        let slashes = between.matches(['/', '\\']).count();
        // `"http":"on"` is a member of an object.
        let is_quoted = scheme.len() < before.len();
        let is_divided = if is_quoted { 2 <= slashes } else { between.contains(is_quote) };
        let ends_scheme = scheme.ends_with(|c: char| c.is_ascii_alphanumeric());
        let begins_host = host.starts_with(|c: char| !c.is_ascii() || c.is_alphanumeric() || "[%_@".contains(c));
        if !(is_divided && ends_scheme && begins_host) {
            continue;
        }
        plain.push_str(scheme);
        plain.push(':');
        plain.extend(between.chars().filter(|c| !is_quote(*c)));
        copied = text.len() - host.len();
    }
    (0 < copied).then(|| plain + &text[copied..])
}
