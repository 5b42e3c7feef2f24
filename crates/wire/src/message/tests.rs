//! Parsing of messages: valid kinds, invalid texts, ambiguous requests.

use bytes::Bytes;

use super::{BadMessage, Envelope, MessageKind, Problem, RequestProblem, meta, refuse_ambiguity};
use crate::{
    json::{JsonError, Raw},
    limit::Limits,
};

fn read(text: &str) -> Result<Envelope, BadMessage> {
    Envelope::read(Bytes::from(text.to_owned()), &Limits::default())
}

#[test]
fn kind_follows_from_the_members_in_any_order() {
    assert_eq!(read(r#"{"method":"a","id":1}"#).unwrap().kind(), MessageKind::Request);
    assert_eq!(read(r#"{"params":{},"method":"a"}"#).unwrap().kind(), MessageKind::Notification);
    assert_eq!(read(r#"{"result":{},"jsonrpc":"2.0","id":"x"}"#).unwrap().kind(), MessageKind::Result);
    assert_eq!(read(r#"{"error":{"code":1,"message":""},"id":null}"#).unwrap().kind(), MessageKind::Error);
    assert_eq!(read(r#"{"id":1,"result":{},"error":null}"#).unwrap().kind(), MessageKind::Result);
    assert_eq!(read(r#"{"id":1,"error":{"code":1}}"#).unwrap().error().unwrap().code(), 1);
}

#[test]
fn id_keeps_its_type_and_spelling() {
    for id in ["1", "\"1\"", "1.0", "12345678901234567890123", "\"\\u0031\"", "-3", "1e3"] {
        let message = read(&format!(r#"{{"id":{id},"method":"a"}}"#)).unwrap();
        assert_eq!(message.id().unwrap().to_string(), id);
    }
}

#[test]
fn invalid_message_is_named_and_its_id_is_kept() {
    let problem = |text: &str| read(text).unwrap_err();
    assert_eq!(problem("[]").problem, Problem::Batch);
    assert_eq!(problem("7").problem, Problem::NotAnObject);
    assert_eq!(problem("").problem, Problem::Json(JsonError::Truncated));
    assert_eq!(problem(r#"{"id":1"#).problem, Problem::Json(JsonError::Truncated));
    assert_eq!(problem(r#"{"id":1}"#).problem, Problem::NoKind);
    assert_eq!(problem(r#"{"id":1,"method":"a","result":1}"#).problem, Problem::NoKind);
    assert_eq!(problem(r#"{"id":{},"method":"a"}"#).problem, Problem::BadId);
    assert_eq!(problem(r#"{"id":null,"method":"a"}"#).problem, Problem::BadId);
    assert_eq!(problem(r#"{"id":1,"method":7}"#).problem, Problem::BadMethod);
    let truncated = problem(r#"{"id":5,"method":"a","params":{"#);
    assert_eq!((truncated.id.unwrap().as_u64(), truncated.is_request), (Some(5), true));
}

#[test]
fn size_and_depth_are_limited() {
    let limits = Limits { message_bytes: 40, depth: 3, ..Limits::default() };
    let read = |text: &str| Envelope::read(Bytes::from(text.to_owned()), &limits).unwrap_err();
    assert_eq!(read(&format!(r#"{{"method":"{}"}}"#, "x".repeat(60))).problem, Problem::TooLarge { limit: 40 });
    let deep = read(r#"{"id":1,"method":"a","params":[[[]]]}"#);
    assert_eq!(deep.problem, Problem::Json(JsonError::TooDeep { limit: 3 }));
    assert_eq!(deep.id.unwrap().as_u64(), Some(1));
}

/// CVE-2026-27896, GO-2026-4770: policy and parser must not be able to disagree.
#[test]
fn ambiguous_request_is_refused() {
    for text in [
        r#"{"id":1,"method":"a","method":"b"}"#,
        r#"{"id":1,"method":"a","Method":"b"}"#,
        r#"{"id":1,"method":"a","paramſ":{}}"#,
        r#"{"id":1,"method":"a","\u006dethod":"b"}"#,
        r#"{"id":1,"method":"a","x\u0000":1}"#,
        r#"{"id":1,"method":"a","\ud800":1}"#,
    ] {
        assert!(matches!(read(text).unwrap_err().problem, Problem::Ambiguous(_)), "{text}");
    }
    assert!(read(r#"{"id":1,"result":{},"Result":{}}"#).is_ok(), "a response may carry what it likes");
}

#[test]
fn ambiguous_params_and_duplicate_arguments_are_refused() {
    let check = |text: &str| refuse_ambiguity(&Raw::parse(text.to_owned()).unwrap());
    assert!(matches!(check(r#"{"name":"a","name":"b"}"#), Err(RequestProblem::Duplicate { .. })));
    assert!(matches!(check(r#"{"Name":"a"}"#), Err(RequestProblem::Miscased { .. })));
    assert!(matches!(check(r#"{"tasK":1}"#), Err(RequestProblem::Miscased { .. })));
    assert!(matches!(check(r#"{"a\u0000b":1}"#), Err(RequestProblem::Nul { .. })));
    assert!(matches!(check(r#"{"arguments":{"q":1,"\u0071":2}}"#), Err(RequestProblem::Duplicate { .. })));
    // However `arguments` itself is spelled, and however many there are.
    assert!(matches!(check(r#"{"\u0061rguments":{"q":1,"q":2}}"#), Err(RequestProblem::Duplicate { .. })));
    assert!(matches!(
        check(r#"{"arguments":{"q":1},"\u0061rguments":{"q":1}}"#),
        Err(RequestProblem::Duplicate { .. })
    ));
    let many: Vec<String> = (0..20).map(|number| format!("\"k{number}\":0")).collect();
    assert!(check(&format!(r#"{{"arguments":{{{}}}}}"#, many.join(","))).is_ok());
    let twice = check(&format!(r#"{{"arguments":{{{},"k7":1}}}}"#, many.join(",")));
    assert_eq!(twice, Err(RequestProblem::Duplicate { key: "k7".to_owned(), place: "arguments" }));
    assert!(check(r#"{"name":"a","task":{}}"#).is_ok_and(|seen| seen.task));
    assert!(check(r#"{"name":"task","arguments":{"task":1}}"#).is_ok_and(|seen| !seen.task));
    assert!(matches!(check("[]"), Err(RequestProblem::ParamsNotAnObject)));
    check(r#"{"name":"a","arguments":{"Name":1,"name":2,"deep":{"x":1,"x":2}},"vendor":1}"#).unwrap();
}

#[test]
fn params_found_during_parsing_equal_a_second_scan() {
    for params in [
        "{}",
        "[1]",
        "null",
        r#"{"name":"x","arguments":{"a":1,"b":{"c":[]}},"_meta":{"progressToken":7,"other":1}}"#,
        r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientInfo":{}},"name":"x"}"#,
        r#"{ "name" : "x" , "_meta" : { "progressToken" : [ 1 ] , "progressToken" : 2 } }"#,
        r#"{"\u005fmeta":{"progress\u0054oken":"t","a":1},"name":"x"}"#,
        r#"{"\u005fmeta":"x"}"#,
        r#"{"_meta":null,"task":{},"requestState":"s"}"#,
        r#"{"_meta":{"a":1},"_meta":{"progressToken":1}}"#,
        r#"{"_meta":{},"\u005fmeta":{"progressToken":1}}"#,
        r#"{"arguments":[{"a":1}],"name":"x"}"#,
        r#"{"\u0061rguments":{"a":1,"a":2}}"#,
        r#"{"arguments":{"a":1,"\u0061":2}}"#,
        r#"{"Name":"x"}"#,
    ] {
        let envelope = read(&format!(r#"{{"params":{params},"id":1,"method":"tools/call"}}"#)).unwrap();
        let again = Raw::parse(params).unwrap();
        let meta = again.get("_meta");
        assert_eq!(envelope.params_summary(), refuse_ambiguity(&again), "{params}");
        assert_eq!(envelope.meta(), meta, "{params}");
        assert_eq!(envelope.meta_kinds(), meta.as_ref().map(meta::MetaKeyKinds::of).unwrap_or_default(), "{params}");
        for key in [meta::PROTOCOL_VERSION, meta::CLIENT_INFO, meta::PROGRESS_TOKEN] {
            assert_eq!(envelope.meta_value(key), meta.as_ref().and_then(|meta| meta.get(key)), "{key} in {params}");
        }
    }
}

#[test]
fn batch_is_split_into_its_messages() {
    let limits = Limits::default();
    let split = |text: &'static str| Envelope::split_batch(&Bytes::from(text), &limits);
    assert!(split(r#"{"a":1}"#).is_none());
    let parts = split(r#" [{"id":1,"result":{ }} , {"method":"x"}]"#).unwrap().unwrap();
    assert_eq!(parts, [r#"{"id":1,"result":{ }}"#, r#"{"method":"x"}"#]);
    assert!(split("[{]").unwrap().is_err());
}
