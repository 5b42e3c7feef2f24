//! The roots of `--root`. Those of the configuration are read by the host.

use std::path::Path;

use toolway_host::roots::Root;
use url::Url;

use crate::{app::App, report::Report};

impl App {
    /// The roots of the command line.
    pub(crate) fn given_roots(&self) -> Result<Vec<Root>, Report> {
        self.reach.root.iter().map(|path| given(path)).collect()
    }
}

/// The root of `--root`: a folder that exists.
fn given(path: &Path) -> Result<Root, Report> {
    let folder = path.canonicalize().map_err(|error| wrong(&path.display().to_string(), &error.to_string()))?;
    if !folder.is_dir() {
        return Err(wrong(&path.display().to_string(), "it is not a folder"));
    }
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Root { uri: uri_of(&folder)?, name })
}

fn uri_of(path: &Path) -> Result<String, Report> {
    let uri =
        Url::from_file_path(path).map_err(|()| wrong(&path.display().to_string(), "it is not an absolute path"))?;
    Ok(uri.into())
}

fn wrong(path: &str, why: &str) -> Report {
    Report::usage("root", format!("root `{path}`: {why}"))
}
