//! Where credentials are kept between runs.
//!
//! | read | for |
//! |---|---|
//! | [`sealed`] | the vault that is a sealed file in the state directory |
//! | [`turns`] | whose turn it is to change a credential, across tasks and processes |
//! | [`notice`] | what a person should hear about all this |
//!
//! Everything here can be read by whoever runs as the same user; what is kept from others is said in each room.
#![warn(missing_docs)]

mod folder;
pub mod notice;
pub mod sealed;
pub mod turns;

pub use notice::{Listener, Notice};
pub use sealed::{SealedVault, SealedWith};
