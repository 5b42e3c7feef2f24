//! Tests of public names: readable, safe, unique and stable.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn origin(server: &str, raw_name: &str) -> Origin {
    Origin { server: server.parse().unwrap(), raw_name: raw_name.to_owned() }
}

fn names(naming: Naming, origins: &[(&str, &str)]) -> Vec<String> {
    let origins: Vec<_> = origins.iter().map(|(server, name)| origin(server, name)).collect();
    assign(&origins, naming).into_iter().map(|name| name.unwrap().to_string()).collect()
}

#[test]
fn plain_name_only_gets_its_prefix() {
    assert_eq!(
        names(Naming::Always, &[("files", "read_file"), ("git", "read_file")]),
        ["files__read_file", "git__read_file"]
    );
}

#[test]
fn unsafe_name_gets_a_readable_beginning_and_a_tag() {
    let long = "x".repeat(200);
    let names =
        names(Naming::Always, &[("files", "read.file"), ("files", "read/file"), ("files", "日本"), ("f", &long)]);
    assert!(names[0].starts_with("files__read_file_") && names[1].starts_with("files__read_file_"), "{names:?}");
    assert_ne!(names[0], names[1]);
    assert!(names[2].starts_with("files_____"), "{names:?}");
    assert_eq!(names[3].len(), LONGEST);
    assert!(names[3].starts_with("f__xxx"));
}

#[test]
fn tag_is_stable() {
    assert_eq!(names(Naming::Always, &[("files", "read.file")]), ["files__read_file_7dca2e2cdc06"]);
}

#[test]
fn name_begins_with_a_letter_or_underscore() {
    assert_eq!(names(Naming::Always, &[("7zip", "pack")]), ["_7zip__pack"]);
    let odd = names(Naming::Always, &[("7zip", "pack"), ("_7zip", "pack")]);
    assert_eq!(odd[0], "_7zip__pack");
    assert!(odd[1].starts_with("_7zip__pack_"), "{odd:?}");
}

#[test]
fn trailing_underscore_of_a_server_name_is_unambiguous() {
    let names = names(Naming::Always, &[("a", "_b"), ("a_", "b")]);
    assert_eq!(names[0], "a___b");
    assert_ne!(names[0], names[1]);
}

#[test]
fn name_that_looks_tagged_gets_its_own_tag() {
    let victim = names(Naming::Always, &[("files", "read.file")]).remove(0);
    let forged = victim.strip_prefix("files__").unwrap();
    let both = names(Naming::Always, &[("files", "read.file"), ("files", forged)]);
    assert_eq!(both[0], victim);
    assert_ne!(both[1], victim);
    assert_eq!(names(Naming::Always, &[("files", forged)]), both[1..], "also without the other item");
}

#[test]
fn auto_naming_prefixes_all_colliding_names() {
    let given = names(Naming::Auto, &[("a", "read"), ("a", "write"), ("b", "read")]);
    assert_eq!(given, ["a__read", "write", "b__read"]);
    // The bare name of a third server equals the prefixed name of another one.
    let given = names(Naming::Auto, &[("a", "read"), ("b", "read"), ("c", "a__read")]);
    assert_eq!(HashSet::<&String>::from_iter(&given).len(), 3);
    assert_eq!(given[1], "b__read");
}

#[test]
fn never_naming_offers_only_the_first_of_a_name() {
    let origins = [origin("a", "read"), origin("b", "read"), origin("b", "write")];
    let given = assign(&origins, Naming::Never).into_iter().map(|name| name.map(|name| name.to_string()));
    assert_eq!(given.collect::<Vec<_>>(), [Some("read".to_owned()), None, Some("write".to_owned())]);
}

#[test]
fn parsing_accepts_valid_names_only() {
    assert_eq!("files__read".parse::<PublicName>().unwrap().as_str(), "files__read");
    for wrong in ["", "a b", "ä", "a.b", &"x".repeat(65)] {
        assert!(wrong.parse::<PublicName>().is_err(), "{wrong}");
    }
}

/// Possible origins of a name, each as `server name`.
fn read(name: &str) -> Vec<String> {
    let origins = name.parse::<PublicName>().unwrap().origins(&[]);
    origins.into_iter().map(|origin| format!("{} {}", origin.server, origin.raw_name)).collect()
}

#[test]
fn prefixed_name_has_one_origin() {
    let long = "s".repeat(32);
    assert_eq!(read("files__read"), ["files read"]);
    assert_eq!(read("files__read__all"), ["files read__all"]);
    assert_eq!(read("a___b"), ["a _b"], "`a_` is always tagged");
    assert_eq!(read("_a__x"), ["_a x"], "`a` has no need of a letter before it");
    assert_eq!(read("_7x__pack"), ["7x pack"], "`_7x` is always tagged");
    assert_eq!(read(&format!("{long}__x")), [format!("{long} x")]);
    for unowned in
        ["read", "7x__pack", "__files__x", "___x", "Files__x", &format!("_{long}__x"), &format!("{long}s__x")]
    {
        assert!(read(unowned).is_empty(), "{unowned}: {:?}", read(unowned));
    }
    let tagged = names(Naming::Always, &[("a_", "b"), ("_7x", "pack"), ("files", "read.file")]);
    assert!(read(&tagged[0]).contains(&"a_ b".to_owned()), "{:?}", read(&tagged[0]));
    assert!(read(&tagged[1]).contains(&"_7x pack".to_owned()), "{:?}", read(&tagged[1]));
    assert_eq!(read(&tagged[2]), [tagged[2].replacen("__", " ", 1)], "what was put in the place of `.` is not known");
}

#[test]
fn long_server_name_is_shortened_by_digest_and_the_tool_stays_readable() {
    let long = "s".repeat(64);
    let name = names(Naming::Always, &[(&long, "read_file")]).remove(0);
    assert_eq!(name, format!("{}_{}__read_file", "s".repeat(19), digest([&long])));
    let other = names(Naming::Always, &[(&long[1..], "read_file")]).remove(0);
    assert_ne!(name, other, "the digest is that of the whole name");
    let servers = [long.parse().unwrap(), long[1..].parse().unwrap()];
    let origins = name.parse::<PublicName>().unwrap().origins(&servers);
    assert_eq!(origins.first(), Some(&origin(&long, "read_file")));

    let forged = name.strip_suffix("__read_file").unwrap();
    assert_ne!(names(Naming::Always, &[(forged, "read_file")]), [name], "a server cannot take the name of another one");
    let filled = names(Naming::Always, &[(&long, &"t".repeat(200))]).remove(0);
    assert!(filled.len() == LONGEST && filled.contains("__ttt"), "{filled}");
}

fn any_origin() -> impl Strategy<Value = Origin> {
    let raw_name = prop_oneof![
        "[ab_]{0,4}",
        "[a-c._/-]{0,70}",
        "a_[0-9a-f]{12}",
        "[a-b]_{1,4}[a-b]",
        ".{0,20}",
        "[7_-][a-b]{0,2}",
    ];
    let server =
        prop_oneof![9 => "[ab7-](_?[ab7-]){0,3}_?", 1 => "_?[ab7](_?[ab7-]){33,40}", 1 => "[ab]{18,19}_[0-9a-f]{12}"];
    (server, raw_name)
        .prop_filter_map("a server name", |(server, raw_name)| Some(Origin { server: server.parse().ok()?, raw_name }))
}

fn distinct(origins: Vec<Origin>) -> Vec<Origin> {
    let mut seen = HashSet::new();
    origins.into_iter().filter(|origin| seen.insert(origin.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_two_origins_share_a_name(origins in proptest::collection::vec(any_origin(), 0..40)) {
        let origins = distinct(origins);
        for naming in [Naming::Always, Naming::Auto, Naming::Never] {
            let names = assign(&origins, naming);
            let names: Vec<_> = names.into_iter().filter(|name| name.is_some() || naming != Naming::Never).collect();
            let unique: HashSet<_> = names.iter().map(|name| name.clone().unwrap()).collect();
            prop_assert_eq!(unique.len(), names.len());
            for name in unique {
                prop_assert!(name.as_str().parse::<PublicName>().is_ok() && begins_well(name.as_str()), "{}", name);
            }
        }
    }

    #[test]
    fn prefixed_names_do_not_depend_on_other_items(origins in proptest::collection::vec(any_origin(), 1..40)) {
        let origins = distinct(origins);
        let together = assign(&origins, Naming::Always);
        for (origin, name) in origins.iter().zip(together) {
            prop_assert_eq!(&assign(std::slice::from_ref(origin), Naming::Always)[0], &name);
        }
    }

    #[test]
    fn origin_is_found_from_every_prefixed_name(origin in any_origin()) {
        let name = assign(std::slice::from_ref(&origin), Naming::Always).remove(0).unwrap();
        let read = name.origins(std::slice::from_ref(&origin.server));
        prop_assert!(read.iter().any(|read| read.server == origin.server), "{} {:?}", name, read);
        let fits = is_safe(&format!("_{}__{}_{}", origin.server, origin.raw_name, "0".repeat(TAG_DIGITS)));
        prop_assert!(!fits || read.contains(&origin), "{} {:?}", name, read);
    }

    #[test]
    fn order_of_items_does_not_matter_with_auto_naming(
        origins in proptest::collection::vec(any_origin(), 1..40)
    ) {
        let origins = distinct(origins);
        let reversed: Vec<_> = origins.iter().rev().cloned().collect();
        let (one, other) = (assign(&origins, Naming::Auto), assign(&reversed, Naming::Auto));
        prop_assert!(one.iter().eq(other.iter().rev()));
    }
}
