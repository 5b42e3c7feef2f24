//! Roots: the folders that servers are told to work in. They are advice to servers, not a fence.

use crate::{
    error::ConfigError,
    settings::Settings,
    shape::{Field, Key, Shape, put},
};

/// One folder or URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSetting {
    /// The folder or URI.
    pub location: RootLocation,
    /// Name for display.
    pub name: Option<String>,
    /// Whether servers are told of it.
    pub enabled: bool,
}

/// Where a root is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootLocation {
    /// A folder: an absolute path, or one that begins with `~/`.
    Path(String),
    /// A URI.
    Uri(String),
}

const MEMBERS: &[(&str, Shape)] =
    &[("path", Shape::Text), ("uri", Shape::Text), ("name", Shape::Text), ("enabled", Shape::Flag)];

/// The top-level key `roots`.
pub(crate) const ROOTS: Key<Settings> = Key {
    name: "roots",
    shape: Shape::ListOfMembers(MEMBERS),
    doc: "Folders that servers are told to work in (roots), in `call`, `chat` and `run`: each with `path` (absolute, or from \
          `~/` on) or `uri`, and `name` and `enabled` if wanted. They are advice, not a fence; some servers use them instead \
          of the folders of their own configuration. Default: none, and servers are not told that there are any.",
    example: r#"[{"path": "~/work/notes", "name": "notes"}]"#,
    set: |settings, field| {
        let roots = field.list(Shape::ListOfMembers(MEMBERS))?.iter().map(root).collect::<Result<_, _>>()?;
        put(&mut settings.roots, field.setting(roots))
    },
};

fn root(field: &Field<'_>) -> Result<RootSetting, ConfigError> {
    let mut name = None;
    let mut enabled = true;
    let mut location = None;
    for (key, field) in field.members()? {
        match key {
            "path" | "uri" if location.is_some() => return Err(field.expected("either `path` or `uri`")),
            "path" => location = Some(path(&field)?),
            "uri" => location = Some(uri(&field)?),
            "name" => name = Some(field.text()?.to_owned()),
            "enabled" => enabled = field.flag()?,
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    let location = location.ok_or_else(|| field.below("path").wrong(Shape::Text))?;
    Ok(RootSetting { location, name, enabled })
}

fn path(field: &Field<'_>) -> Result<RootLocation, ConfigError> {
    let path = field.text()?;
    let is_whole = std::path::Path::new(path).is_absolute() || path == "~" || path.starts_with("~/");
    match is_whole {
        true => Ok(RootLocation::Path(path.to_owned())),
        false => Err(field.expected("an absolute path, or one that begins with `~/`")),
    }
}

fn uri(field: &Field<'_>) -> Result<RootLocation, ConfigError> {
    let uri = field.text()?;
    match url::Url::parse(uri) {
        Ok(_) => Ok(RootLocation::Uri(uri.to_owned())),
        Err(_) => Err(field.expected("a URI such as `file:///home/ada/notes`")),
    }
}
