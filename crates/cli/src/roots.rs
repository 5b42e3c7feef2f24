//! The roots that servers are told of: those of `--root`, and those of the configuration.

use std::path::{Path, PathBuf};

use toolway_config::{RootLocation, RootSetting, Settings};
use toolway_host::connection::client_features::Root;
use url::Url;

use crate::{app::App, report::Report};

impl App {
    /// The roots of a command, equal ones once.
    pub(crate) fn roots(&self, settings: &Settings) -> Result<Vec<Root>, Report> {
        let given = self.reach.root.iter().map(|path| given(path));
        let enabled = settings.roots.value.iter().filter(|root| root.enabled);
        let configured = enabled.map(|root| self.configured_root(root));
        let mut roots: Vec<Root> = Vec::new();
        for root in given.chain(configured) {
            let root = root?;
            if roots.iter().all(|known| known.uri != root.uri) {
                roots.push(root);
            }
        }
        Ok(roots)
    }

    fn configured_root(&self, root: &RootSetting) -> Result<Root, Report> {
        let uri = match &root.location {
            RootLocation::Uri(uri) => uri.clone(),
            RootLocation::Path(path) => {
                let home = || self.paths.home.clone().ok_or_else(|| wrong(path, "there is no home directory"));
                let path = match path.strip_prefix('~') {
                    Some(rest) => home()?.join(rest.trim_start_matches('/')),
                    None => PathBuf::from(path),
                };
                uri_of(&path)?
            }
        };
        Ok(Root { uri, name: root.name.clone() })
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
