//! Where credentials are kept between runs.
//!
//! | read | for |
//! |---|---|
//! | [`choice`] | which of these it is: the one place that chooses |
//! | [`sealed`] | the vault that is a sealed file in the state directory |
//! | [`keychain`] | the operating system's keychain: a vault, and the user's own entries |
//! | [`turns`] | whose turn it is to change a credential, across tasks and processes |
//! | [`notice`] | what a person should hear about all this |
//!
//! Everything here can be read by whoever runs as the same user; what is kept from others is said in each room.
#![warn(missing_docs)]

pub mod choice;
mod entries;
mod folder;
pub mod keychain;
pub mod notice;
pub mod sealed;
pub mod turns;

pub use choice::{LateVault, VaultOptions, WantedVault, open};
pub use keychain::{KeychainVault, SystemKeychain};
pub use notice::{Listener, Notice};
pub use sealed::{SealedVault, SealedWith};
