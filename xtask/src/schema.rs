//! The configuration described in `docs/reference`, made from the table the program reads by.

use std::{fs, io, path::Path};

use toolway_config::schema;

/// What there is and what belongs there.
fn pages() -> [(&'static str, String); 2] {
    [
        ("docs/reference/config.schema.json", format!("{:#}\n", schema::schema())),
        ("docs/reference/config.md", schema::reference()),
    ]
}

/// Writes the pages.
pub(crate) fn write(root: &Path) -> io::Result<()> {
    pages().into_iter().try_for_each(|(file, text)| fs::write(root.join(file), text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::pages;
    use crate::tidy::root;

    #[test]
    fn the_pages_are_what_the_program_reads_by() {
        for (file, text) in pages() {
            let kept = fs::read_to_string(root().join(file)).unwrap_or_default();
            assert!(kept == text, "{file} is out of date; run `cargo xtask schema`");
        }
    }
}
