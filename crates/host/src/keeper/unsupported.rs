//! Systems without what a keeper needs: programs are started in the plain way, and custody is weaker.

/// The keepers of one custodian: none.
#[derive(Default)]
pub(super) struct Keepers;

/// Nobody is ever cast.
pub(super) fn play_if_cast() {}

impl Keepers {
    /// Why programs are kept less well than by a keeper.
    pub(super) fn why_weaker(&self) -> Option<String> {
        Some("this system has no way to keep the descendants of a program together".to_owned())
    }
}
