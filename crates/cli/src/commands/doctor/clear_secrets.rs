//! Secrets in clear in configuration files: where they are, who can read them, and how to move them.

use std::fs;

use serde_json::{Value, json};
use toolway_config::{Loaded, ServerName, clear::ClearSecret, document::Document, ownership};

use crate::output::Output;

/// A secret in clear, as `doctor` shows it.
pub(super) struct Finding {
    secret: ClearSecret,
    /// Whether other users can read the file.
    is_readable_by_others: bool,
}

/// The secrets in clear in our files, of these servers, or all.
pub(super) fn find(loaded: &Loaded, servers: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &loaded.files {
        let Ok(document) = Document::read(file) else { continue };
        let is_readable_by_others = fs::metadata(file).is_ok_and(|found| ownership::is_readable_by_others(&found));
        let secrets = document.clear_secrets().into_iter().filter(|secret| is_wanted(secret, servers));
        findings.extend(secrets.map(|secret| Finding { secret, is_readable_by_others }));
    }
    findings
}

fn is_wanted(secret: &ClearSecret, servers: &[String]) -> bool {
    let name = secret.server.as_deref().and_then(|label| ServerName::from_label(label).ok());
    let is_it = |wanted: &String| ServerName::from_label(wanted).ok() == name;
    servers.is_empty() || name.is_some() && servers.iter().any(is_it)
}

impl Finding {
    fn advice(&self) -> String {
        let ClearSecret { name, server, .. } = &self.secret;
        match server.as_deref().map(ServerName::from_label) {
            Some(Ok(server)) => format!("move it to the vault with `toolway secret move {server}`"),
            _ => format!("store it with `toolway secret set {name}`, and write `{}` in its place", name.reference()),
        }
    }

    pub(super) fn view(&self) -> Value {
        let ClearSecret { place, key, server, .. } = &self.secret;
        json!({
            "file": place.file,
            "line": place.line,
            "key": key,
            "server": server,
            "readableByOthers": self.is_readable_by_others,
            "advice": self.advice(),
        })
    }

    pub(super) fn print(&self, output: &mut Output) {
        let ClearSecret { place, key, .. } = &self.secret;
        let readers = if self.is_readable_by_others { ", and other users can read it" } else { "" };
        output.line(&format!("{place}: `{key}` is a secret in clear{readers}"));
        output.field(&format!("    advice         {}", self.advice()));
    }
}
