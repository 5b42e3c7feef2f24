//! The page: written from what a run proved, and compared with what is committed.

use std::{fmt::Write, path::PathBuf};

use super::{
    Proven, Row,
    scene::{self, Column},
    undeclared,
};
use crate::differential::edits::{Edits, Kind, KnownEdit};

const HEAD: &str = "# The bridge

What passes through the gateway between callers and servers of either era. Made by the stories in
`crates/gateway/tests/it/bridge`, which fail when it does not say what they proved: a cell says yes where its story was
told in that run, at `/mcp` and at `/servers/<id>/mcp`, by a real client to a real server.
`UPDATE_BRIDGE=1 cargo nextest run -p toolway-gateway bridge` writes it anew.

2025 is the era with sessions, spoken here as 2025-11-25; 2026 is the era without, spoken as 2026-07-28. Callers come
over HTTP; the server behind is a process (stdio) or an address (HTTP).
";

const UNDECLARED: &str = "
## What a caller cannot be asked

No question reaches a caller that did not declare it, and no server is told that a caller can do what it cannot. A call
that needs it all the same is refused; `data.requiredCapabilities` says what would have to be declared. Between two
sessions the server hears of it and ends the call in its own words.

| caller → server | code | sentence | names what is lacking |
|---|---|---|---|
";

const EDITS: &str = "
## What the gateway edits

Where both sides speak the same era, what a server says arrives at `/servers/<id>/mcp` byte for byte: results, errors,
each item of a list; steps of progress, log lines and questions in the middle of a request, in their order; what is
honoured of a subscription, and what is told then. The differences are these, and `crates/gateway/tests/it/differential`
compares servers of ours and of others, directly and through the gateway, to show that there are no more. *Hello* is the
first answer: `initialize` or `server/discover`; *results* are those of any method. Besides, icons that are addresses
elsewhere are left out of lists and of who answers, since clients take them only from where the server is; those that
hold their picture go through.

| in | era | where | what differs | why |
|---|---|---|---|---|
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
    page.push_str(UNDECLARED);
    for said in undeclared::SAID {
        let (client, server) = (scene::year(said.client), scene::year(said.server));
        let named = if said.names_it { "yes" } else { "no" };
        let cells = [said.code.to_string(), said.sentence.replace("{}", "…"), named.to_owned()];
        line(&mut page, &format!("| {client} → {server} |"), &cells);
    }
    page.push_str(EDITS);
    Edits::read().all().iter().for_each(|edit| edited(&mut page, edit));
    page
}

fn edited(page: &mut String, edit: &KnownEdit) {
    let place = if edit.place.is_empty() { "the whole".to_owned() } else { format!("`{}`", edit.place.join(" › ")) };
    let differs = match edit.kind {
        Kind::Order => "the order of its members",
        Kind::No => "left out where it says no",
        Kind::Own => "the gateway's own",
        Kind::Added => "added where the server says nothing",
    };
    let cells = [&edit.era, &place, differs, &edit.why].map(str::to_owned);
    line(page, &format!("| {} |", edit.about), &cells);
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
