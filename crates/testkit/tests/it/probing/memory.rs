//! What was found out is remembered, used, and corrected when it turns out wrong; a bad moment corrects nothing.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use toolway_testkit::odd::{
    http::{Act, OddHttp, Reply, polite_http},
    polite::Speaks,
};
use toolway_wire::{
    revision::Era,
    up::{EraMemory, Found, transport::Manner},
};

use super::{Met, WITH_SESSION, WITHOUT_SESSION, over_http::event_stream};
use crate::dialling::{Record, address, patient, process};

const LEGACY: Found = Found { era: Era::Legacy, manner: Manner::Session };
const OLDEST: Found = Found { era: Era::Legacy, manner: Manner::EventStream };
const MODERN: Found = Found { era: Era::Modern, manner: Manner::Stateless };

/// One server's era, kept in this process.
#[derive(Default)]
struct Notebook(Mutex<HashMap<String, Found>>);

impl EraMemory for Notebook {
    fn recall(&self, key: &str) -> Option<Found> {
        // Whatever the key: the tests know one server each.
        let known = self.0.lock();
        known.get(key).or_else(|| known.get("any")).copied()
    }

    fn remember(&self, key: &str, found: Found) {
        self.0.lock().insert(key.to_owned(), found);
    }

    fn forget(&self, _key: &str) {
        self.0.lock().clear();
    }
}

impl Notebook {
    fn saying(found: Found) -> Arc<Self> {
        Arc::new(Self(Mutex::new(HashMap::from([("any".to_owned(), found)]))))
    }

    /// What a server with another key than `any` was found to be.
    fn learned(&self) -> Option<Found> {
        self.0.lock().iter().find(|(key, _)| *key != "any").map(|(_, found)| *found)
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

#[tokio::test]
async fn a_process_is_met_as_remembered_and_what_was_wrong_is_corrected() {
    let rows: [(&str, Found, Met, Found, &[&str]); 5] = [
        // Not asked again.
        ("both", LEGACY, WITH_SESSION, LEGACY, &["start", "initialize", "notifications/initialized"]),
        ("both", MODERN, WITHOUT_SESSION, MODERN, &["start", "server/discover"]),
        // It was replaced by a newer one, by an older one, by one that ends on what it does not know.
        ("modern", LEGACY, WITHOUT_SESSION, MODERN, &["start", "initialize", "start", "server/discover"]),
        (
            "legacy",
            MODERN,
            WITH_SESSION,
            LEGACY,
            &["start", "server/discover", "initialize", "notifications/initialized"],
        ),
        (
            "ends",
            MODERN,
            WITH_SESSION,
            LEGACY,
            &["start", "server/discover", "start", "initialize", "notifications/initialized"],
        ),
    ];
    for (server, remembered, expected, learned, heard) in rows {
        let (record, memory) = (Record::new(), Notebook::saying(remembered));
        let met = process(server, &record, patient(), Some(memory.clone())).await;
        assert_eq!(Met::of(&met), expected, "{server}, said to be {remembered:?}: {:?}", met.err());
        assert_eq!(memory.learned(), Some(learned), "{server}, said to be {remembered:?}");
        let peer = met.unwrap();
        peer.ping().await.unwrap();
        let mut found = record.lines();
        found.pop();
        assert_eq!(found, heard, "{server}, said to be {remembered:?}");
        peer.close().await;
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_not_started_more_often_because_it_is_remembered() {
    for remembered in [LEGACY, MODERN] {
        let (record, memory) = (Record::new(), Notebook::saying(remembered));
        let error = process("ends-always", &record, patient(), Some(memory.clone())).await.unwrap_err();
        assert_eq!(error.code(), "ended", "{remembered:?}");
        let starts = record.lines().iter().filter(|line| *line == "start").count();
        assert!(starts <= 3, "{remembered:?}: {:?}", record.lines());
        assert_eq!(memory.learned(), None);
    }
}

#[tokio::test]
async fn an_address_is_met_as_remembered() {
    let (odd, memory) =
        (OddHttp::start(|seen| polite_http(Speaks::Both, seen)).await.unwrap(), Notebook::saying(LEGACY));
    let met = address(&odd, patient(), Some(memory.clone())).await;
    assert_eq!(Met::of(&met), WITH_SESSION, "{met:?}");
    odd.until(|seen| seen.len() == 3).await;
    assert_eq!(odd.briefs(), ["POST initialize", "POST notifications/initialized", "GET"]);
    assert_eq!(memory.learned(), Some(LEGACY));

    let (odd, memory) = (OddHttp::start(event_stream("/messages")).await.unwrap(), Notebook::saying(OLDEST));
    let met = address(&odd, patient(), Some(memory.clone())).await;
    assert_eq!(memory.learned(), Some(OLDEST), "{met:?}");
    assert_eq!(odd.briefs(), ["GET", "POST /messages initialize", "POST /messages notifications/initialized"]);
}

#[tokio::test]
async fn an_address_whose_server_was_replaced_is_asked_again() {
    let odd = OddHttp::start(|seen| match seen.verb.as_str() {
        "POST" => polite_http(Speaks::Modern, seen),
        _ => Reply::empty(405),
    });
    let odd = odd.await.unwrap();
    for (remembered, before) in [(LEGACY, "POST initialize"), (OLDEST, "GET")] {
        let memory = Notebook::saying(remembered);
        let met = address(&odd, patient(), Some(memory.clone())).await;
        assert_eq!(Met::of(&met), WITHOUT_SESSION, "{met:?}");
        assert_eq!(memory.learned(), Some(MODERN));
        let briefs = odd.briefs();
        assert_eq!(briefs[briefs.len() - 2..], [before, "POST server/discover"], "{briefs:?}");
    }
}

#[tokio::test]
async fn a_bad_moment_corrects_nothing() {
    let bodies: [fn(u16) -> Reply; 2] =
        [Reply::empty, |status| Reply::json(status, &toolway_testkit::odd::polite::error(&1.into(), -32603, "busy"))];
    for (remembered, first) in [(LEGACY, "POST initialize"), (MODERN, "POST server/discover"), (OLDEST, "GET")] {
        for (status, code) in [(401, "unauthorized"), (403, "unauthorized"), (429, "http_status"), (503, "http_status")]
        {
            for body in bodies {
                let odd = OddHttp::start(move |_| body(status)).await.unwrap();
                let memory = Notebook::saying(remembered);
                let error = address(&odd, patient(), Some(memory.clone())).await.unwrap_err();
                assert_eq!(error.code(), code, "{remembered:?}, {status}: {error}");
                assert_eq!(odd.briefs(), [first], "{remembered:?}, {status}");
                assert!(!memory.is_empty(), "{remembered:?}, {status}: forgotten");
            }
        }
        let odd = OddHttp::start(|_| Reply::bare().then(Act::Reset)).await.unwrap();
        let memory = Notebook::saying(remembered);
        let error = address(&odd, patient(), Some(memory.clone())).await.unwrap_err();
        assert_eq!((error.code(), odd.briefs()), ("ended", vec![first.to_owned()]), "{remembered:?}");
        assert!(!memory.is_empty(), "{remembered:?}: forgotten");
    }
}
