//! What a server lists to each capability profile, if it differs from the shared listing.
//!
//! A server may list more to clients with more capabilities. The listing is discovered once per profile, on a connection
//! without any call, so that it contains nothing specific to one caller. It is kept as a difference, so that changes of the
//! shared listing apply to it too. A listing after an announced change belongs to that connection only.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::key::CapabilityProfile;
use crate::catalog::{
    Listing,
    listing_table::{Audience, ServerListings},
};

/// The known listing of each profile. There are at most two dozen profiles.
#[derive(Debug)]
pub(super) struct ProfileListings {
    /// Where listings are kept.
    listings: ServerListings,
    known: HashMap<CapabilityProfile, ProfileListing>,
    /// When the listing of a profile was last requested.
    attempted: HashMap<CapabilityProfile, Instant>,
    /// Profiles with an attempt in progress.
    in_progress: HashSet<CapabilityProfile>,
}

/// The listing of a profile, and the shared listing at the same time.
#[derive(Debug)]
struct ProfileListing {
    own: Arc<Listing>,
    shared: Arc<Listing>,
    /// A shared listing, and the profile's listing merged with it; `None` if there is no difference.
    merged: (Arc<Listing>, Option<Arc<Listing>>),
}

/// The shortest time between two attempts for the same profile.
const RETRY_AFTER: Duration = Duration::from_secs(60);

impl ProfileListings {
    pub(super) fn new(listings: ServerListings) -> Self {
        Self { listings, known: HashMap::new(), attempted: HashMap::new(), in_progress: HashSet::new() }
    }

    /// The listing of a profile; `None` if it equals `base`, the shared listing, or is not known.
    pub(super) fn get(&mut self, profile: CapabilityProfile, base: &Arc<Listing>) -> Option<Arc<Listing>> {
        let known = self.known.get_mut(&profile)?;
        if !Arc::ptr_eq(&known.merged.0, base) {
            known.merged = (Arc::clone(base), known.merge(base, &self.listings));
        }
        known.merged.1.clone()
    }

    /// Whether the listing of any profile differs from the shared one.
    pub(super) fn is_any_different(&self) -> bool {
        self.known.values().any(|known| known.merged.1.is_some())
    }

    pub(super) fn knows(&self, profile: CapabilityProfile) -> bool {
        self.known.contains_key(&profile)
    }

    /// Whether an attempt is in progress or permitted now.
    pub(super) fn may_discover(&self, profile: CapabilityProfile, now: Instant) -> bool {
        let recent = self.attempted.get(&profile).is_some_and(|attempted| now < *attempted + RETRY_AFTER);
        !self.knows(profile) && (!recent || self.has_attempt(profile))
    }

    pub(super) fn has_attempt(&self, profile: CapabilityProfile) -> bool {
        self.in_progress.contains(&profile)
    }

    /// Begins an attempt, to be ended by [`Self::end_attempt`]; `false` if none is permitted now.
    pub(super) fn begin_attempt(&mut self, profile: CapabilityProfile, now: Instant) -> bool {
        let begins = self.may_discover(profile, now) && self.in_progress.insert(profile);
        if begins {
            self.attempted.insert(profile, now);
        }
        begins
    }

    /// Ends an attempt.
    pub(super) fn end_attempt(&mut self, profile: CapabilityProfile) {
        self.in_progress.remove(&profile);
    }

    /// Stores the listing of a profile; returns whether it differs from the shared one.
    pub(super) fn insert(&mut self, profile: CapabilityProfile, own: Arc<Listing>, shared: &Arc<Listing>) -> bool {
        // An equal listing is not kept twice.
        let own = if own.lists_the_same(shared) { Arc::clone(shared) } else { own };
        let mut known = ProfileListing { own, merged: (Arc::clone(shared), None), shared: Arc::clone(shared) };
        known.merged.1 = known.merge(shared, &self.listings);
        let differs = known.merged.1.is_some();
        self.known.insert(profile, known);
        differs
    }

    /// Forgets everything: after a reconnect the server may be a different one.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.listings.clone());
    }
}

impl ProfileListing {
    /// The listing of the profile beside this shared one; `None` if there is no difference, or if it does not fit the byte
    /// budget.
    fn merge(&self, base: &Arc<Listing>, listings: &ServerListings) -> Option<Arc<Listing>> {
        if self.own.lists_the_same(&self.shared) {
            return None;
        }
        if self.shared.lists_the_same(base) {
            return Some(Arc::clone(&self.own));
        }
        let merged = listings.listing(base.differing_as(&self.own, &self.shared), Audience::SomeCallers);
        merged.inspect_err(|error| tracing::warn!(%error, "the lists of a capability profile are not kept")).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Instant};

    use serde_json::json;
    use toolway_wire::{
        json::Raw,
        message::item::{Item, Tool},
    };

    use super::{ProfileListings, RETRY_AFTER};
    use crate::{
        catalog::{Listing, entry::ListedItem, listing_table::ServerListings},
        connection::pool::CapabilityProfile,
    };

    const FORMS: CapabilityProfile = CapabilityProfile { forms: true, ..CapabilityProfile::NOTHING };

    fn listing(tools: &[&str]) -> Listing {
        let tool = |name: &&str| ListedItem::new(Tool::view(&Raw::of(&json!({ "name": name }))).unwrap());
        Listing { tools: tools.iter().map(tool).collect(), ..Listing::empty() }
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.tools.iter().map(|tool| tool.item.name.as_str()).collect()
    }

    #[test]
    fn profile_listing_follows_changes_of_the_shared_listing() {
        let mut listings = ProfileListings::new(ServerListings::unlimited());
        let shared = Arc::new(listing(&["echo", "plain"]));
        assert!(listings.insert(FORMS, Arc::new(listing(&["ask", "echo"])), &shared));
        assert_eq!(names(&listings.get(FORMS, &shared).unwrap()), ["ask", "echo"]);
        let changed = Arc::new(listing(&["new", "echo", "plain"]));
        assert_eq!(names(&listings.get(FORMS, &changed).unwrap()), ["new", "echo", "ask"]);
        assert!(listings.get(CapabilityProfile::NOTHING, &changed).is_none());
    }

    #[test]
    fn equal_listing_is_not_kept_for_a_profile() {
        let mut listings = ProfileListings::new(ServerListings::unlimited());
        let shared = Arc::new(listing(&["echo"]));
        assert!(!listings.insert(FORMS, Arc::new(listing(&["echo"])), &shared));
        assert!(listings.knows(FORMS));
        assert!(listings.get(FORMS, &Arc::new(listing(&["other"]))).is_none());
    }

    #[test]
    fn attempts_are_throttled_and_stop_once_the_listing_is_known() {
        let (mut listings, now) = (ProfileListings::new(ServerListings::unlimited()), Instant::now());
        assert!(listings.begin_attempt(FORMS, now));
        assert!(!listings.begin_attempt(FORMS, now), "an attempt is in progress");
        assert!(listings.may_discover(FORMS, now), "the attempt is worth waiting for");
        listings.end_attempt(FORMS);
        assert!(!listings.may_discover(FORMS, now) && !listings.begin_attempt(FORMS, now));
        assert!(listings.begin_attempt(FORMS, now + RETRY_AFTER));
        listings.end_attempt(FORMS);
        listings.insert(FORMS, Arc::new(listing(&[])), &Arc::new(listing(&[])));
        assert!(!listings.begin_attempt(FORMS, now + 3 * RETRY_AFTER));
        listings.forget();
        assert!(listings.begin_attempt(FORMS, now + 3 * RETRY_AFTER));
    }
}
