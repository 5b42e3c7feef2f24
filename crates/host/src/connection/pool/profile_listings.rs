//! What a server lists to callers who have lines of their own, where that is not what everybody is listed.
//!
//! A server may list more to a side that can be asked more. That is learnt once for each profile, on a line that nobody
//! has called anything on yet, so that nothing of one caller's is in it; and kept as a difference, so that what changes
//! for everybody changes there too. What a line lists after its server said that it changed is that line's alone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::key::CapabilityProfile;
use crate::catalog::Listing;

/// What is listed to each profile. There are two dozen of them at most.
#[derive(Debug, Default)]
pub(super) struct Offering {
    learnt: HashMap<CapabilityProfile, Learnt>,
    /// When it was last tried to learn what a profile is listed.
    tried: HashMap<CapabilityProfile, Instant>,
    /// For whom somebody is about to.
    trying: HashSet<CapabilityProfile>,
}

/// What a profile is listed, beside what everybody was at that moment.
#[derive(Debug)]
struct Learnt {
    theirs: Arc<Listing>,
    beside: Arc<Listing>,
    /// The same beside what everybody is listed now; none where there is no difference.
    fitted: (Arc<Listing>, Option<Arc<Listing>>),
}

/// A server that could not be asked is asked again after this, by whoever lists then.
const AGAIN: Duration = Duration::from_secs(60);

impl Offering {
    /// What a profile is listed where `base` is what everybody is; none where that is the same, or not known.
    pub(super) fn to(&mut self, profile: CapabilityProfile, base: &Arc<Listing>) -> Option<Arc<Listing>> {
        let learnt = self.learnt.get_mut(&profile)?;
        if !Arc::ptr_eq(&learnt.fitted.0, base) {
            learnt.fitted = (Arc::clone(base), learnt.fit(base));
        }
        learnt.fitted.1.clone()
    }

    pub(super) fn knows(&self, profile: CapabilityProfile) -> bool {
        self.learnt.contains_key(&profile)
    }

    /// Whether it is worth waiting for more to be known.
    pub(super) fn may_come(&self, profile: CapabilityProfile, now: Instant) -> bool {
        let rests = self.tried.get(&profile).is_some_and(|tried| now < *tried + AGAIN);
        !self.knows(profile) && (!rests || self.is_trying(profile))
    }

    pub(super) fn is_trying(&self, profile: CapabilityProfile) -> bool {
        self.trying.contains(&profile)
    }

    /// Whether whoever asks is to find out; then they say when they are [done](Self::tried).
    pub(super) fn try_now(&mut self, profile: CapabilityProfile, now: Instant) -> bool {
        let tries = self.may_come(profile, now) && self.trying.insert(profile);
        if tries {
            self.tried.insert(profile, now);
        }
        tries
    }

    /// Whoever tried has done what they could.
    pub(super) fn tried(&mut self, profile: CapabilityProfile) {
        self.trying.remove(&profile);
    }

    /// This is what a profile is listed; whether that is another list than everybody's.
    pub(super) fn learn(&mut self, profile: CapabilityProfile, theirs: Listing, beside: &Arc<Listing>) -> bool {
        let mut learnt =
            Learnt { theirs: Arc::new(theirs), fitted: (Arc::clone(beside), None), beside: Arc::clone(beside) };
        learnt.fitted.1 = learnt.fit(beside);
        let differs = learnt.fitted.1.is_some();
        self.learnt.insert(profile, learnt);
        differs
    }

    /// The server that comes next may be another one.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Learnt {
    fn fit(&self, base: &Arc<Listing>) -> Option<Arc<Listing>> {
        if self.theirs.lists_the_same(&self.beside) {
            return None;
        }
        if self.beside.lists_the_same(base) {
            return Some(Arc::clone(&self.theirs));
        }
        Some(Arc::new(base.differing_as(&self.theirs, &self.beside)))
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

    use super::{AGAIN, Offering};
    use crate::{
        catalog::{Listing, entry::Listed},
        connection::lines::CapabilityProfile,
    };

    const FORMS: CapabilityProfile = CapabilityProfile { forms: true, ..CapabilityProfile::NOTHING };

    fn listing(tools: &[&str]) -> Listing {
        let tool = |name: &&str| Listed::new(Tool::view(&Raw::of(&json!({ "name": name }))).unwrap());
        Listing { tools: tools.iter().map(tool).collect(), ..Listing::empty() }
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.tools.iter().map(|tool| tool.item.name.as_str()).collect()
    }

    #[test]
    fn a_profile_is_listed_its_own_beside_what_changes_for_everybody() {
        let mut offering = Offering::default();
        let beside = Arc::new(listing(&["echo", "plain"]));
        assert!(offering.learn(FORMS, listing(&["ask", "echo"]), &beside));
        assert_eq!(names(&offering.to(FORMS, &beside).unwrap()), ["ask", "echo"]);
        let changed = Arc::new(listing(&["new", "echo", "plain"]));
        assert_eq!(names(&offering.to(FORMS, &changed).unwrap()), ["new", "echo", "ask"]);
        assert!(offering.to(CapabilityProfile::NOTHING, &changed).is_none());
    }

    #[test]
    fn where_there_is_no_difference_there_is_no_list_of_its_own() {
        let mut offering = Offering::default();
        let beside = Arc::new(listing(&["echo"]));
        assert!(!offering.learn(FORMS, listing(&["echo"]), &beside));
        assert!(offering.knows(FORMS));
        assert!(offering.to(FORMS, &Arc::new(listing(&["other"]))).is_none());
    }

    #[test]
    fn it_is_tried_once_in_a_while_and_not_again_when_it_is_known() {
        let (mut offering, now) = (Offering::default(), Instant::now());
        assert!(offering.try_now(FORMS, now));
        assert!(!offering.try_now(FORMS, now), "somebody is about to");
        assert!(offering.may_come(FORMS, now), "which is worth waiting for");
        offering.tried(FORMS);
        assert!(!offering.may_come(FORMS, now) && !offering.try_now(FORMS, now));
        assert!(offering.try_now(FORMS, now + AGAIN));
        offering.tried(FORMS);
        offering.learn(FORMS, listing(&[]), &Arc::new(listing(&[])));
        assert!(!offering.try_now(FORMS, now + 3 * AGAIN));
        offering.forget();
        assert!(offering.try_now(FORMS, now + 3 * AGAIN));
    }
}
