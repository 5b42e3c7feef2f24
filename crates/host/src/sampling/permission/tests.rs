//! The table of permissions: levels, mode, presence by surface, quota, saved answer, and what follows.

use std::time::{Duration, UNIX_EPOCH};

use toolway_config::SamplingSettings;

use super::*;
use crate::{
    policy::{Attendance, Surface},
    sampling::quota::{QuotaLevel, QuotaLimit},
};

/// Top, server, client · mode · surface · quota · saved answer · decision. `-`: not set.
const TABLE: &[&str] = &[
    // None set is never; one `never` is never, whatever else is set.
    "-      -      -      | -      | chat    | free | nothing    | never",
    "-      -      -      | allow  | run     | free | everywhere | never",
    "-      -      -      | allow  | gateway | free | everywhere | never",
    "never  -      -      | allow  | chat    | free | everywhere | never",
    "-      never  -      | allow  | call    | free | everywhere | never",
    "-      -      never  | allow  | gateway | free | everywhere | never",
    "never  always always | allow  | console | free | everywhere | never",
    "always never  always | -      | chat    | free | attended   | never",
    "always always never  | writes | gateway | free | nothing    | never",
    "never  ask    ask    | ask    | run     | full | nothing    | never",
    // One level alone.
    "always -      -      | -      | call    | free | nothing    | configuration",
    "-      always -      | -      | chat    | free | nothing    | configuration",
    "-      -      always | -      | gateway | free | nothing    | configuration",
    "ask    -      -      | -      | call    | free | nothing    | ask",
    "-      ask    -      | -      | chat    | free | nothing    | ask",
    "-      -      ask    | -      | gateway | free | nothing    | ask",
    // The strictest of those that are set.
    "always ask    -      | -      | chat    | free | nothing    | ask",
    "ask    always -      | -      | chat    | free | nothing    | ask",
    "always always ask    | -      | gateway | free | nothing    | ask",
    "ask    always always | -      | gateway | free | nothing    | ask",
    "always always always | ask    | gateway | free | nothing    | configuration",
    "always always -      | -      | run     | free | nothing    | configuration",
    // `always` needs no person and no mode; each mode and surface.
    "always -      -      | ask    | run     | free | nothing    | configuration",
    "always -      -      | writes | console | free | nothing    | configuration",
    "always -      -      | allow  | library | free | nothing    | configuration",
    // `ask` on every surface, by mode.
    "ask    -      -      | -      | console | free | nothing    | ask",
    "ask    -      -      | -      | library | free | nothing    | ask",
    "ask    -      -      | -      | run     | free | nothing    | unattended",
    "ask    -      -      | ask    | run     | free | nothing    | unattended",
    "ask    -      -      | writes | run     | free | nothing    | unattended",
    "ask    -      -      | allow  | run     | free | nothing    | mode",
    "ask    -      -      | ask    | chat    | free | nothing    | ask",
    "ask    -      -      | writes | chat    | free | nothing    | ask",
    "ask    -      -      | allow  | chat    | free | nothing    | mode",
    "ask    -      -      | allow  | gateway | free | nothing    | mode",
    "ask    -      -      | allow  | call    | free | nothing    | mode",
    // A script that calls: no person, whatever the surface is otherwise.
    "ask    -      -      | -      | script  | free | nothing    | unattended",
    "ask    -      -      | allow  | script  | free | nothing    | mode",
    "always -      -      | -      | script  | free | nothing    | configuration",
    // Saved answers lift `ask`, where they hold, and not in mode `ask`.
    "ask    -      -      | -      | chat    | free | attended   | saved",
    "ask    -      -      | writes | console | free | attended   | saved",
    "ask    -      -      | ask    | chat    | free | attended   | ask",
    "ask    -      -      | ask    | chat    | free | everywhere | ask",
    "ask    -      -      | -      | run     | free | attended   | unattended",
    "ask    -      -      | -      | run     | free | everywhere | saved",
    "ask    -      -      | ask    | run     | free | everywhere | unattended",
    "ask    -      -      | -      | script  | free | attended   | unattended",
    "ask    -      -      | -      | script  | free | everywhere | saved",
    "-      ask    always | -      | gateway | free | attended   | saved",
    // A full quota refuses whatever would be allowed or asked.
    "always -      -      | -      | call    | full | nothing    | quota",
    "always always always | allow  | gateway | full | everywhere | quota",
    "ask    -      -      | allow  | run     | full | nothing    | quota",
    "ask    -      -      | -      | chat    | full | nothing    | quota",
    "ask    -      -      | -      | chat    | full | attended   | quota",
    "-      -      -      | -      | chat    | full | nothing    | never",
    // An answer that has to be shown needs a person, whatever the mode; `+` is `review`.
    "always+ -     -      | -      | chat    | free | nothing    | configuration",
    "always -      ask+   | -      | gateway | free | nothing    | ask",
    "always+ -     -      | -      | run     | free | nothing    | review",
    "ask    ask+   -      | allow  | run     | free | everywhere | review",
    "always always+ -     | -      | script  | free | everywhere | review",
    "never  always+ -     | -      | run     | free | nothing    | never",
];

#[test]
fn permission_follows_from_levels_mode_surface_quota_and_saved_answer() {
    assert!(40 <= TABLE.len());
    let exceeded = QuotaExceeded {
        level: QuotaLevel::Top,
        limit: QuotaLimit::RequestsPerHour(1),
        ends_at: Some(UNIX_EPOCH + Duration::from_secs(1)),
    };
    for row in TABLE {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [levels, mode, surface, quota, saved, expected] = cells[..] else { panic!("{row}") };
        let words: Vec<_> = levels.split_whitespace().map(level).collect();
        let [top, server, client] = &words[..] else { panic!("{row}") };
        let levels = SamplingLevels { top: top.clone(), server: server.clone(), client: client.clone() };
        let decided = decide(PermissionInput {
            levels: &levels,
            mode: match mode {
                "-" => None,
                "ask" => Some(PolicyMode::Ask),
                "writes" => Some(PolicyMode::Writes),
                _ => Some(PolicyMode::Allow),
            },
            presence: match surface {
                "script" => Presence::of(Surface::Call, Attendance::Unattended),
                word => Presence::of(Surface::parse(word).unwrap(), Attendance::Attended),
            },
            exceeded: (quota == "full").then_some(&exceeded),
            saved: match saved {
                "nothing" => SavedAnswer::Nothing,
                "attended" => SavedAnswer::Attended,
                _ => SavedAnswer::Everywhere,
            },
        });
        let word = match &decided {
            Permission::Allowed(by) => by.as_str(),
            Permission::Ask => "ask",
            Permission::Refused(by) => by.as_str(),
        };
        assert_eq!(word, expected, "{row}");
    }
}

fn level(word: &str) -> SamplingSettings {
    let review = word.ends_with('+').then_some(true);
    let allow = match word.trim_end_matches('+') {
        "never" => Some(SamplingPermission::Never),
        "ask" => Some(SamplingPermission::Ask),
        "always" => Some(SamplingPermission::Always),
        _ => None,
    };
    SamplingSettings { allow, review, ..SamplingSettings::default() }
}
