//! `TOOLWAY.md` of a project: instructions to the model that stand in a repository. They are text of others, so a model gets
//! them only after the user has accepted exactly this text ([`crate::consent`] keeps the acceptance).

use std::path::{Path, PathBuf};

use crate::{
    consent::{Accepted, Digest},
    interpolate::read_bounded,
    project::{self, Search},
};

/// Name of the file.
pub const FILE: &str = "TOOLWAY.md";
/// Bytes that the file may have. The user sees all of them before accepting, and a model gets them with every request.
pub const MAX_BYTES: u64 = 32 * 1024;

/// The instructions of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// Path of the file.
    pub file: PathBuf,
    /// The whole text.
    pub text: String,
    /// Digest that the acceptance is bound to.
    pub digest: Digest,
    /// Whether the user accepted them.
    pub status: InstructionsStatus,
}

/// Whether the user accepted instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstructionsStatus {
    /// The user accepted exactly this text.
    Accepted,
    /// The user accepted no text of this file.
    New,
    /// The user accepted this text, which has changed; `None` if it is not kept any more.
    Changed(Option<String>),
}

/// Why the instructions of a project are not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the project instructions `{}` are not used: {problem}", file.display())]
pub struct InstructionsError {
    /// Path of the file.
    pub file: PathBuf,
    /// Reason without the path.
    pub problem: String,
}

impl Instructions {
    /// The instructions of a project; `None` if it has none. A file that is a link to a place outside of the project, that
    /// another user owns or can change, or that is too long, is an error.
    pub fn find(search: &Search, user: u32, accepted: &Accepted) -> Result<Option<Self>, InstructionsError> {
        let Some(folder) = &search.folder else { return Ok(None) };
        let file = folder.join(FILE);
        if file.symlink_metadata().is_err() {
            return Ok(None);
        }
        let failed = |problem: String| InstructionsError { file: file.clone(), problem };
        if let Some(problem) = project::refusal(folder, &file, user) {
            return Err(failed(problem));
        }
        let text = read_bounded(&file, MAX_BYTES).map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8(text).map_err(|_| failed("it is not UTF-8 text".to_owned()))?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        Ok(Some(Self::of(file, text, accepted)))
    }

    fn of(file: PathBuf, text: String, accepted: &Accepted) -> Self {
        let digest = Digest::of(text.as_bytes());
        let status = match accepted.instructions(&file) {
            None => InstructionsStatus::New,
            Some(before) if before.digest == digest => InstructionsStatus::Accepted,
            Some(before) => InstructionsStatus::Changed(before.text.clone()),
        };
        Self { file, text, digest, status }
    }

    /// The acceptance to store when the user accepts.
    pub fn acceptance(&self) -> AcceptedInstructions {
        AcceptedInstructions { digest: self.digest, text: Some(self.text.clone()) }
    }

    /// Whether a model may get them.
    pub fn is_accepted(&self) -> bool {
        self.status == InstructionsStatus::Accepted
    }

    /// The folder of the project.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(&self.file)
    }
}

/// Instructions that the user accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedInstructions {
    /// Digest of the accepted text.
    pub digest: Digest,
    /// The text, to show differences later; `None` if it is not kept any more.
    pub text: Option<String>,
}
