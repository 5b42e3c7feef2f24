//! Lock files pin versions and digests, never the address something was downloaded from.

use super::Finding;

/// How a lock file names an address, by the lock file's name.
const ADDRESSES: &[(&str, &[&str])] = &[
    ("npm-shrinkwrap.json", &["\"resolved\":"]),
    ("package-lock.json", &["\"resolved\":"]),
    ("poetry.lock", &["url = "]),
    ("requirements.txt", &["--index-url", "--extra-index-url", "--find-links", "-i ", "-f ", "@ http", "@ file"]),
    ("uv.lock", &["url = ", "registry = "]),
    ("yarn.lock", &["resolved "]),
    // What it may name instead is in deny.toml, see `supply`.
    ("Cargo.lock", &["source = \"git+", "source = \"sparse+"]),
];

pub(super) fn is_one(name: &str) -> bool {
    ADDRESSES.iter().any(|(lock_file, _)| *lock_file == name)
}

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((_, marks)) = ADDRESSES.iter().find(|(lock_file, _)| *lock_file == name) else {
        return Vec::new();
    };
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_start()));
    lines
        .filter(|(_, line)| !line.starts_with('#') && marks.iter().any(|mark| has_mark(line, mark)))
        .map(|(number, _)| Finding::broken(format!("{path}:{number}"), "names a download address"))
        .collect()
}

/// Options stand at the start of a line, everything else anywhere in it.
fn has_mark(line: &str, mark: &str) -> bool {
    if mark.starts_with('-') { line.starts_with(mark) } else { line.contains(mark) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_without_addresses_are_fine() {
        let npm = "{\n  \"node_modules/a\": {\n    \"version\": \"1.0.0\",\n    \"integrity\": \"sha512-x\"\n  }\n}\n";
        assert!(check("tests/interop/package-lock.json", npm).is_empty());
        let pip = "# made with --index-url\nfast-index==1.0 \\\n    --hash=sha256:00\n";
        assert!(check("tests/interop/requirements.txt", pip).is_empty());
        let cargo = "[[package]]\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        assert!(check("Cargo.lock", cargo).is_empty());
        assert!(check("notes.txt", "resolved \"resolved\": url = ").is_empty());
    }

    #[test]
    fn an_address_is_found_in_every_kind() {
        let bad = [
            ("a/package-lock.json", "{\n  \"resolved\": \"https://example.org/a.tgz\"\n}"),
            ("a/requirements.txt", "--index-url https://example.org/simple\n"),
            ("a/requirements.txt", "a @ https://example.org/a.whl\n"),
            ("a/requirements.txt", "-i https://example.org/simple\n"),
            ("yarn.lock", "a@1:\n  resolved \"https://example.org/a.tgz\"\n"),
            ("uv.lock", "source = { registry = \"https://example.org/simple\" }\n"),
            ("Cargo.lock", "source = \"git+https://example.org/a\"\n"),
        ];
        for (path, text) in bad {
            let found = check(path, text);
            assert_eq!(found.len(), 1, "{path}: {text}");
            assert!(found[0].to_string().ends_with("names a download address"));
        }
    }
}
