//! Tests of listings stored on disk.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::catalog::{Diff, test_catalog::CatalogBuilder};

const DEFINITION: &str = "aabbccddeeff00112233445566778899";

fn server() -> ServerName {
    "files".parse().unwrap()
}

fn test_catalog() -> CatalogBuilder {
    CatalogBuilder::default()
        .tools("files", &[json!({ "name": "read", "description": "é\n", "inputSchema": { "type": "object" } })])
        .resources("files", &["file:///a"])
        .templates("files", &["file:///{+path}"])
        .prompts("files", &["explain"])
        .change("files", |listing| listing.instructions = Some("with care".to_owned()))
}

fn listing() -> Listing {
    test_catalog().offers[&server()].listing.as_ref().clone()
}

fn path(cache: &ListingCache) -> PathBuf {
    cache.file(&server(), DEFINITION).path().to_owned()
}

fn kept() -> (tempfile::TempDir, ListingCache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = ListingCache::in_folder(folder.path().join("catalog"));
    cache.store(&server(), DEFINITION, &listing()).unwrap();
    (folder, cache)
}

#[test]
fn stored_listing_is_read_back_byte_for_byte() {
    let (_folder, cache) = kept();
    let recalled = cache.load(&server(), DEFINITION).unwrap().unwrap();
    assert_eq!(recalled.instructions.as_deref(), Some("with care"));
    assert!(recalled.capabilities.has("resources"));
    let again = CatalogBuilder::default().change("files", |listing| *listing = recalled);
    assert!(Diff::between(&test_catalog().merge(), &again.merge()).is_empty());
    assert_eq!(again.merge().tools()[0].item.raw, test_catalog().merge().tools()[0].item.raw);
}

#[test]
fn copy_is_found_for_its_server_and_definition_only() {
    let (_folder, cache) = kept();
    assert!(cache.load(&server(), "ffff").unwrap().is_none());
    // The same first digits lead to the same file.
    assert!(cache.load(&server(), &DEFINITION.replace("99", "98")).unwrap().is_none());
    assert!(cache.load(&"git".parse().unwrap(), DEFINITION).unwrap().is_none());
    cache.remove(&server(), DEFINITION).unwrap();
    assert!(cache.load(&server(), DEFINITION).unwrap().is_none());
    cache.remove(&server(), DEFINITION).unwrap();
}

#[test]
fn definition_cannot_escape_the_folder() {
    let cache = ListingCache::in_folder("/nowhere");
    assert_eq!(cache.file(&server(), "../../a/b").path(), Path::new("/nowhere/files.ab.json"));
}

#[test]
fn damaged_copy_is_refused_with_a_reason() {
    let (_folder, cache) = kept();
    let whole = fs::read_to_string(path(&cache)).unwrap();
    for (text, reason) in [
        ("{", "not JSON"),
        (&whole[..whole.len() - 9], "not JSON"),
        (&whole.replace("\"prompts\":", "\"promptz\":"), "no array `prompts`"),
        (&whole.replace("{\"name\":\"explain\"}", "7"), "prompt 0 is malformed"),
        (&whole.replace("\"capabilities\":", "\"c\":"), "`capabilities` is missing"),
    ] {
        assert_ne!(text, whole);
        fs::write(path(&cache), text).unwrap();
        let error = cache.load(&server(), DEFINITION).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("files."), "{error}");
    }
    fs::write(path(&cache), whole.replace("\"version\":1", "\"version\":2")).unwrap();
    assert!(cache.load(&server(), DEFINITION).unwrap().is_none(), "another version is no error");
    cache.store(&server(), DEFINITION, &listing()).unwrap();
    assert!(cache.load(&server(), DEFINITION).unwrap().is_some(), "and is replaced");
}

#[test]
fn copy_that_others_can_write_is_refused() {
    let (_folder, cache) = kept();
    fs::set_permissions(path(&cache), fs::Permissions::from_mode(0o622)).unwrap();
    assert!(cache.load(&server(), DEFINITION).unwrap_err().to_string().ends_with("can be written by other users"));
}

#[test]
fn listing_that_is_too_large_is_not_stored_and_removes_the_old_copy() {
    let (_folder, cache) = kept();
    let cache = ListingCache { most: 2_000, ..cache };
    assert!(cache.load(&server(), DEFINITION).unwrap().is_some());
    let long = "x".repeat(2_000);
    let large = CatalogBuilder::default().tools("files", &[json!({ "name": "x", "description": long })]);
    let error = cache.store(&server(), DEFINITION, &large.offers[&server()].listing).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    assert!(cache.load(&server(), DEFINITION).unwrap().is_none());
}

#[test]
fn oldest_copies_are_deleted_beyond_the_limit() {
    let (_folder, cache) = kept();
    for number in 0..MAX_FILES + 3 {
        let other = format!("{number:016x}");
        cache.store(&"other".parse().unwrap(), &other, &Listing::empty()).unwrap();
    }
    let left = fs::read_dir(path(&cache).parent().unwrap()).unwrap().count();
    assert_eq!(left, MAX_FILES + 1, "and the one lock");
    assert!(cache.load(&server(), DEFINITION).unwrap().is_none(), "the oldest");
}
