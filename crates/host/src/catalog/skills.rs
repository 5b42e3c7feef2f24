//! The skills extension: which servers have it, and its methods.

use toolway_config::ServerName;

use super::Catalog;

/// Identifier of the extension.
pub const SKILLS: &str = "io.modelcontextprotocol/skills";

/// What a server declares of the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillSupport {
    /// It does not have the extension.
    Unsupported,
    /// Lists of skills, and the entry of one.
    Entries,
    /// These, and the lists of files in a folder.
    EntriesAndFolders,
}

/// What a server declares of the skills extension.
pub fn support(catalog: &Catalog, server: &ServerName) -> SkillSupport {
    let declared = catalog.listing_of(server).and_then(|listing| listing.capabilities.0.get("extensions")?.get(SKILLS));
    let Some(declared) = declared else { return SkillSupport::Unsupported };
    match declared.get("directoryRead") {
        Some(flag) if flag.as_bytes() == b"true" => SkillSupport::EntriesAndFolders,
        _ => SkillSupport::Entries,
    }
}

/// Whether a server has this method by the extension.
pub(crate) fn offers(catalog: &Catalog, server: &ServerName, method: &str) -> bool {
    match method {
        "skills/list" | "skills/get" => support(catalog, server) != SkillSupport::Unsupported,
        "resources/directory/read" => support(catalog, server) == SkillSupport::EntriesAndFolders,
        _ => false,
    }
}
