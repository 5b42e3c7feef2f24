//! Paths and URLs in arguments, as far as all programs read them alike. What can be read in several ways is no place here,
//! so that it is neither generalised nor covered by a folder or a host.

use url::Url;

/// Levels of the least deep folder that a scope may name.
const MIN_LEVELS: usize = 2;

/// Whether a text is a path or a URL, also one that can be read in several ways.
pub(super) fn is_place(text: &str) -> bool {
    let is_path = text.contains(['/', '\\']) && !text.contains(char::is_whitespace);
    is_path || text.starts_with(['/', '~']) || text.contains("://")
}

/// The deepest folder that contains all these paths, without a slash at its end; `None` if it is not deep enough, or if a
/// text is no path.
pub(super) fn common_folder(texts: &[String]) -> Option<String> {
    let mut paths = texts.iter().map(|text| segments(text));
    let mut common = paths.next()??;
    // The last one is a file, or a folder of its own.
    common.pop();
    for path in paths {
        let path = path?;
        let above = path.len() - 1;
        let equal = common.iter().zip(&path[..above]).take_while(|(one, other)| one == other).count();
        common.truncate(equal);
    }
    let levels = common.iter().filter(|segment| !matches!(**segment, "" | "~")).count();
    (MIN_LEVELS <= levels).then(|| common.join("/"))
}

/// Whether a path is below a folder.
pub(super) fn is_below(folder: &str, text: &str) -> bool {
    let Some(path) = segments(text) else { return false };
    let folder: Vec<&str> = folder.split('/').collect();
    folder.len() < path.len() && path.starts_with(&folder)
}

/// Host and port of these URLs, if it is the same in all.
pub(super) fn common_host(texts: &[String]) -> Option<String> {
    let mut hosts = texts.iter().map(|text| authority(text));
    let first = hosts.next()??;
    hosts.all(|host| host.as_ref() == Some(&first)).then_some(first)
}

/// Whether a URL has this host and port.
pub(super) fn is_at(host: &str, text: &str) -> bool {
    authority(text).is_some_and(|authority| authority == host)
}

/// The parts of a path between slashes; the first is empty for an absolute path, and `~` for one in the home folder.
/// `None` if programs may read it differently: `.`, `..`, doubled slashes, backslashes, escapes, variables, patterns.
fn segments(text: &str) -> Option<Vec<&str>> {
    let is_odd = |letter: char| letter.is_control() || "\\%$*?`|;&<>:\"'".contains(letter);
    let is_trimmed = text.trim() == text && !text.is_empty();
    if !is_trimmed || text.contains(is_odd) || !text.contains('/') || text.starts_with('-') {
        return None;
    }
    let segments: Vec<&str> = text.strip_suffix('/').unwrap_or(text).split('/').collect();
    let (first, rest) = segments.split_first()?;
    let is_plain = |segment: &&str| !segment.is_empty() && *segment != "." && *segment != "..";
    let is_first = first.is_empty() || *first == "~" || (is_plain(first) && !first.starts_with('~'));
    (is_first && !rest.is_empty() && rest.iter().all(is_plain)).then_some(segments)
}

/// Host and port of an http or https URL that all programs read alike.
fn authority(text: &str) -> Option<String> {
    let is_plain = |letter: char| letter.is_ascii_graphic() && !"\\\"<>`".contains(letter);
    if !text.chars().all(is_plain) {
        return None;
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    // Letters of names and addresses alone: a host stands in a sentence, where `a.example,any` would say something else.
    let is_of_host = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| authority.chars().all(is_of_host))?;
    let url = Url::parse(text).ok()?;
    let written = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str()?),
        None => url.host_str()?.to_owned(),
    };
    (written == authority).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::{common_folder, common_host, is_at, is_below};

    fn folder(texts: &[&str]) -> Option<String> {
        common_folder(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn paths_have_a_common_folder_of_at_least_two_levels() {
        assert_eq!(folder(&["/home/ada/a.txt", "/home/ada/b/c.txt"]).as_deref(), Some("/home/ada"));
        assert_eq!(folder(&["/home/ada/notes/a", "/home/ada/notes/b"]).as_deref(), Some("/home/ada/notes"));
        assert_eq!(folder(&["src/lib/a.rs", "src/lib/b.rs"]).as_deref(), Some("src/lib"));
        assert_eq!(folder(&["~/notes/a/x", "~/notes/a/y"]).as_deref(), Some("~/notes/a"));
        assert_eq!(folder(&["/home/ada/notes/a"]).as_deref(), Some("/home/ada/notes"));
        for texts in [
            ["/home/ada", "/home/bob"],
            ["/tmp/a", "/tmp/b"],
            ["~/a/x", "~/a/y"],
            ["a.txt", "b.txt"],
            ["/home/ada/a", "/home/ada/../bob/a"],
            ["/home/ada/a", "/home//ada/b"],
            ["/home/ada/a", "/home/ada/%2e%2e/b"],
            ["/home/ada/a", "/home/ada/$X"],
            ["/home/ada/a", "home/ada/b"],
            ["/home/ada/a", "/home/ada/b\n/etc/passwd"],
            ["/home/ada/a", "-o/home/ada/b"],
            ["~root/x/y/z", "~root/x/y/w"],
            ["https://a.example/x/y", "https://a.example/x/z"],
        ] {
            assert_eq!(folder(&texts), None, "{texts:?}");
        }
    }

    #[test]
    fn a_path_is_below_its_folder_only() {
        assert!(is_below("/home/ada", "/home/ada/x/y.txt"));
        for text in [
            "/home/ada",
            "/home/ada/",
            "/home/ada-evil/x",
            "/home/ada/../bob/x",
            "/home/ada/./x",
            "/home/ada//x",
            "home/ada/x",
            " /home/ada/x",
            "/home/ada/x;rm",
            "/home/ada/x\0",
            "file:///home/ada/x",
        ] {
            assert!(!is_below("/home/ada", text), "{text}");
        }
    }

    #[test]
    fn urls_have_a_common_host_if_all_programs_read_it_alike() {
        let host = |texts: &[&str]| common_host(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(host(&["https://a.example/x", "http://a.example/y?z"]).as_deref(), Some("a.example"));
        assert_eq!(host(&["https://a.example:8443/x"]).as_deref(), Some("a.example:8443"));
        assert_eq!(host(&["https://a.example/x", "https://b.example/x"]), None);
        for odd in ["https://a.example,any/x", "https://a.example=b/x", "https://a.example;b/", "https://(a.example)/"]
        {
            assert_eq!(host(&[odd]), None, "{odd}");
        }
        for text in [
            "https://a.example.evil.example/x",
            "https://a.example@evil.example/",
            "https://a.example\\@evil.example/",
            "https://A.example/x",
            "https:a.example/x",
            "//a.example/x",
            "https://a.example:443/x",
            "https://a.example:8443/x",
            "https://a%2eexample/x",
            "https://a.example,any/x",
            "https://a.example/ x",
            "https://a。example/x",
            "ftp://a.example/x",
        ] {
            assert!(!is_at("a.example", text), "{text}");
        }
    }
}
