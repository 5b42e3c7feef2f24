//! Lists that gateway clients give in answer to `roots/list`, as servers get them.

use toolway_wire::{exchange::Answer, json::Raw};

use super::{ClientRootBound, book::RootsBook};

/// What a server gets of the list of a client.
fn passed_on(bound: &ClientRootBound, list: &str) -> String {
    let book = RootsBook::new(Vec::new(), bound.clone(), None, None);
    match book.complete("ada", Answer::Given(Raw::parse(list.to_owned()).unwrap())) {
        Answer::Given(given) => given.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_reading_of_a_list_has_a_root_that_the_bound_does_not_admit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let bound = ClientRootBound::Within(vec![folder.clone()]);
    let good = format!("file://{}", folder.display());
    let only = format!(r#"{{"roots":[{{"uri":"{good}"}}]}}"#);
    for list in [
        format!(r#"{{"roots":[{{"uri":"{good}"}}],"roots":[{{"uri":"file:///etc"}}]}}"#),
        format!(r#"{{"roots":[{{"uri":"{good}"}}],"r\u006fots":[{{"uri":"file:///etc"}}]}}"#),
        format!(r#"{{"roots":[{{"uri":"{good}"}}],"Roots":[{{"uri":"file:///etc"}}]}}"#),
        format!(r#"{{"roots":[{{"uri":"{good}","uri":"file:///etc"}}]}}"#),
        format!(r#"{{"roots":[{{"uri":"{good}","URI":"file:///etc"}}]}}"#),
        format!(r#"{{"roots":[{{"uri":"{good}"}},{{"uri":["file:///etc"]}},{{"URI":"file:///etc"}},"file:///etc"]}}"#),
    ] {
        assert_eq!(passed_on(&bound, &list), only, "{list}");
    }
    assert_eq!(passed_on(&bound, r#"{"roots":{"uri":"file:///etc"}}"#), r#"{"roots":[]}"#);
    let whole = format!(r#"{{"roots":[{{"uri":"{good}","name":"n","_meta":{{"a":1}}}}],"_meta":{{"b":2}}}}"#);
    let same = format!(r#"{{"_meta":{{"b":2}},"roots":[{{"uri":"{good}","name":"n","_meta":{{"a":1}}}}]}}"#);
    assert_eq!(passed_on(&bound, &whole), same);
    assert_eq!(passed_on(&ClientRootBound::Anywhere, &whole), whole, "what is not bounded is not edited");
}
