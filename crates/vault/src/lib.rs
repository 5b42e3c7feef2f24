//! Storage of credentials between runs.
//!
//! | module | responsibility |
//! |---|---|
//! | [`bundle`] | secrets of a backup, sealed with a passphrase |
//! | [`choice`] | selects the vault |
//! | [`sealed`] | a vault in an encrypted file in the state directory |
//! | [`keychain`] | the keychain of the operating system: a vault, and the user's own entries |
//! | [`secrets`] | secrets of the user by name, for `${secret:NAME}` |
//! | [`key_locks`] | one lock per credential, across tasks and processes |
//! | [`notice`] | notices for the user |
//!
//! Other programs of the same user can read everything stored here. Each module says how it protects credentials from
//! other users.
#![warn(missing_docs)]

pub mod bundle;
pub mod choice;
mod entries;
mod folder;
pub mod key_locks;
pub mod keychain;
pub mod notice;
pub mod sealed;
pub mod secrets;

pub use bundle::{BundleError, SecretBundle};
pub use choice::{LazyVault, VaultChoice, VaultOptions, open};
pub use keychain::{KeychainVault, SystemKeychain};
pub use notice::{Notice, NoticeHandler};
pub use sealed::{SealedVault, SealedWith};
pub use secrets::{SecretError, SecretSources, SecretStore};
