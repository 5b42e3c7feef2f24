//! The page: written from what a run proved, and compared with what is committed.

use std::{fmt::Write, path::PathBuf};

use super::{Proven, Row, scene::Column};

const HEAD: &str = "# The bridge

What passes through the gateway between callers and servers of either era. Made by the stories in
`crates/gateway/tests/it/bridge`, which fail when it does not say what they proved: a cell says yes where its story was
told in that run, at `/mcp` and at `/servers/<id>/mcp`, by a real client to a real server.
`UPDATE_BRIDGE=1 cargo nextest run -p toolway-gateway bridge` writes it anew.

2025 is the era with sessions, spoken here as 2025-11-25; 2026 is the era without, spoken as 2026-07-28. Callers come
over HTTP; the server behind is a process (stdio) or an address (HTTP).
";

/// The page, from a row's cells in each column.
pub(super) fn rendered(rows: &[Row], columns: &[Vec<Proven>]) -> String {
    let mut page = HEAD.to_owned();
    let heads: Vec<String> = Column::ALL.iter().map(|column| column.to_string().replace(", ", "<br>")).collect();
    line(&mut page, "\n| caller → server |", &heads);
    line(&mut page, "|---|", &vec!["---".to_owned(); heads.len()]);
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> = columns.iter().map(|column| cell(&column[index]).to_owned()).collect();
        line(&mut page, &format!("| {} |", row.name), &cells);
    }
    page.push_str("\n## What each row shows\n\n| | shown | what a caller may notice all the same |\n|---|---|---|\n");
    for row in rows {
        line(&mut page, &format!("| {} |", row.name), &[row.proves.to_owned(), row.note.to_owned()]);
    }
    page
}

fn line(page: &mut String, first: &str, cells: &[String]) {
    writeln!(page, "{first} {} |", cells.join(" | ")).unwrap();
}

fn cell(proven: &Proven) -> &'static str {
    if proven.is_ok() { "yes" } else { "no" }
}

/// The committed page has to be this one; or is made this one, where that is asked for.
pub(super) fn compare(page: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/bridge.md");
    if std::env::var_os("UPDATE_BRIDGE").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    similar(&committed, page);
}

fn similar(committed: &str, page: &str) {
    let differs = committed.lines().zip(page.lines()).find(|(committed, proven)| committed != proven);
    assert!(committed == page, "docs/reference/bridge.md is not what this run proved, first here: {differs:#?}");
}
