//! The discovered era is remembered, used, and corrected if it is wrong; temporary failures do not change it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use toolway_testkit::odd::{
    compliant::SupportedEras,
    http::{Act, OddHttp, Reply, compliant_http},
};
use toolway_wire::{
    revision::Era,
    up::{ConnectOptions, DetectedProtocol, EraChoice, EraMemory, transport::HttpMode},
};

use super::{Probed, WITH_SESSION, WITHOUT_SESSION, over_http::event_stream};
use crate::dialling::{Record, SHORT, address, patient, process};

const LEGACY: DetectedProtocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::Session };
const OLDEST: DetectedProtocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::EventStream };
const MODERN: DetectedProtocol = DetectedProtocol { era: Era::Modern, http_mode: HttpMode::Stateless };

/// Era memory of one server in this process.
#[derive(Default)]
struct Notebook(Mutex<HashMap<String, DetectedProtocol>>, Mutex<Vec<DetectedProtocol>>);

impl EraMemory for Notebook {
    fn recall(&self, key: &str) -> Option<DetectedProtocol> {
        // The key is ignored: each test has one server.
        let known = self.0.lock();
        known.get(key).or_else(|| known.get("any")).copied()
    }

    fn remember(&self, key: &str, found: DetectedProtocol) {
        self.0.lock().insert(key.to_owned(), found);
    }

    fn suppose(&self, _key: &str, found: DetectedProtocol) {
        self.1.lock().push(found);
    }

    fn forget(&self, _key: &str) {
        self.0.lock().clear();
    }
}

impl Notebook {
    fn saying(found: DetectedProtocol) -> Arc<Self> {
        Arc::new(Self(Mutex::new(HashMap::from([("any".to_owned(), found)])), Mutex::default()))
    }

    /// Stored era under a key other than `any`.
    fn learned(&self) -> Option<DetectedProtocol> {
        self.0.lock().iter().find(|(key, _)| *key != "any").map(|(_, found)| *found)
    }

    /// The era that the next connection would use.
    fn known(&self) -> Option<DetectedProtocol> {
        self.learned().or_else(|| self.0.lock().get("any").copied())
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

#[tokio::test]
async fn remembered_era_of_a_process_is_used_and_corrected() {
    let rows: [(&str, DetectedProtocol, Probed, DetectedProtocol, &[&str]); 5] = [
        // Not probed again.
        ("both", LEGACY, WITH_SESSION, LEGACY, &["start", "initialize", "notifications/initialized"]),
        ("both", MODERN, WITHOUT_SESSION, MODERN, &["start", "server/discover"]),
        // Replaced by a newer server, an older one, and one that exits on unknown methods.
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
        assert_eq!(Probed::of(&met), expected, "{server}, said to be {remembered:?}: {:?}", met.err());
        assert_eq!(memory.known(), Some(learned), "{server}, said to be {remembered:?}");
        let peer = met.unwrap();
        peer.ping().await.unwrap();
        let mut found = record.lines();
        found.pop();
        assert_eq!(found, heard, "{server}, said to be {remembered:?}");
        peer.close().await;
    }
}

#[tokio::test]
async fn era_concluded_from_silence_or_configuration_is_only_supposed() {
    let silence = |mut options: ConnectOptions| {
        options.timeouts.probe = SHORT;
        options
    };
    let memory = Arc::new(Notebook::default());
    let met = process("silent", &Record::new(), silence(patient()), Some(memory.clone())).await;
    assert_eq!(Probed::of(&met), WITH_SESSION, "{met:?}");
    assert_eq!((memory.learned(), memory.1.lock().clone()), (None, vec![LEGACY]));
    // A slow start of a server known as stateless changes nothing.
    let memory = Notebook::saying(MODERN);
    let met = process("silent", &Record::new(), silence(patient()), Some(memory.clone())).await;
    assert_eq!(Probed::of(&met), WITH_SESSION, "{met:?}");
    assert_eq!((memory.known(), memory.1.lock().clone()), (Some(MODERN), vec![]));
    // Nor does a connection that was not to detect anything.
    for (memory, supposed) in [(Notebook::saying(MODERN), vec![]), (Arc::new(Notebook::default()), vec![LEGACY])] {
        let sessions = ConnectOptions { era: EraChoice::Legacy, ..patient() };
        let met = process("both", &Record::new(), sessions, Some(memory.clone())).await;
        assert_eq!(Probed::of(&met), WITH_SESSION, "{met:?}");
        assert_eq!((memory.learned(), memory.1.lock().clone()), (None, supposed));
    }
}

#[tokio::test]
async fn dead_server_is_not_started_more_often_because_it_is_remembered() {
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
async fn remembered_era_of_a_url_is_used() {
    let (odd, memory) =
        (OddHttp::start(|seen| compliant_http(SupportedEras::Both, seen)).await.unwrap(), Notebook::saying(LEGACY));
    let met = address(&odd, patient(), Some(memory.clone())).await;
    assert_eq!(Probed::of(&met), WITH_SESSION, "{met:?}");
    odd.until(|seen| seen.len() == 3).await;
    assert_eq!(odd.briefs(), ["POST initialize", "POST notifications/initialized", "GET"]);
    assert_eq!(memory.known(), Some(LEGACY));

    let (odd, memory) = (OddHttp::start(event_stream("/messages")).await.unwrap(), Notebook::saying(OLDEST));
    let met = address(&odd, patient(), Some(memory.clone())).await;
    assert_eq!(memory.known(), Some(OLDEST), "{met:?}");
    assert_eq!(odd.briefs(), ["GET", "POST /messages initialize", "POST /messages notifications/initialized"]);
}

#[tokio::test]
async fn url_with_a_replaced_server_is_probed_again() {
    let odd = OddHttp::start(|seen| match seen.verb.as_str() {
        "POST" => compliant_http(SupportedEras::Modern, seen),
        _ => Reply::empty(405),
    });
    let odd = odd.await.unwrap();
    for (remembered, before) in [(LEGACY, "POST initialize"), (OLDEST, "GET")] {
        let memory = Notebook::saying(remembered);
        let met = address(&odd, patient(), Some(memory.clone())).await;
        assert_eq!(Probed::of(&met), WITHOUT_SESSION, "{met:?}");
        assert_eq!(memory.learned(), Some(MODERN));
        let briefs = odd.briefs();
        assert_eq!(briefs[briefs.len() - 2..], [before, "POST server/discover"], "{briefs:?}");
    }
}

#[tokio::test]
async fn temporary_failure_does_not_change_the_memory() {
    let bodies: [fn(u16) -> Reply; 2] = [Reply::empty, |status| {
        Reply::json(status, &toolway_testkit::odd::compliant::error(&1.into(), -32603, "busy"))
    }];
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
