//! The newest model of a vendor's list, asked for on its own wire.

use toolway_model::ModelErrorKind;
use toolway_testkit::vendor::{Reply, VendorKind};

use crate::stage::{KEY, build, model, options};

#[tokio::test]
async fn every_vendor_is_asked_on_its_own_wire() {
    for kind in VendorKind::ALL {
        let (vendor, model) = model(kind, Vec::new()).await;
        assert_eq!(model.newest_model().await.unwrap(), kind.newest_model(), "{kind:?}");
        let asked = vendor.requests().remove(0);
        assert_eq!(asked.verb, "GET", "{kind:?}");
        assert!(asked.headers.iter().any(|(_, value)| value.contains(KEY)), "{kind:?}: the key is sent");
    }
}

#[tokio::test]
async fn a_missing_key_and_a_server_without_a_list_are_told_apart() {
    let (vendor, _) = model(VendorKind::Anthropic, Vec::new()).await;
    let mut without = options(VendorKind::Anthropic, &vendor.base_url());
    without.key = None;
    let error = build(without).newest_model().await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unauthorized { status: 401 });
    // Every other path is unknown to the mock.
    let (vendor, _) = model(VendorKind::Openai, vec![Reply::text("never")]).await;
    let elsewhere = options(VendorKind::Openai, &format!("{}/elsewhere", vendor.base_url()));
    let error = build(elsewhere).newest_model().await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest { status: 404 });
}
