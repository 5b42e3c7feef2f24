//! The simulated store does what every store of leases does.

use toolway_testkit::{lease_stories::check_every_story, simulated_store::SimulatedStore};

#[tokio::test]
async fn simulated_store_passes_the_stories_of_leases() {
    check_every_story(async || SimulatedStore::default()).await;
}
