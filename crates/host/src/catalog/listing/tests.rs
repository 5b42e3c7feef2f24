//! Tests of listings.

use std::time::{Duration, Instant};

use toolway_wire::message::result::{CacheHint, CacheScope};

use super::{ItemKind, LONGEST, Listing, ReceivedCacheHint, SHORTEST};

#[test]
fn refresh_interval_follows_the_cache_hint_within_bounds() {
    for (said, expected) in [
        (Duration::ZERO, None),
        (Duration::from_millis(1), Some(SHORTEST)),
        (Duration::from_secs(60), Some(Duration::from_secs(60))),
        (Duration::MAX, Some(LONGEST)),
    ] {
        let mut listing = Listing::empty();
        let said = CacheHint { ttl: said, scope: CacheScope::Private };
        listing.cache_hints.insert(ItemKind::Tool, ReceivedCacheHint { hint: said, received_at: Instant::now() });
        assert_eq!(listing.refresh_interval(ItemKind::Tool), expected);
        assert_eq!(listing.refresh_interval(ItemKind::Prompt), None);
    }
}
