//! Which caller began which task, and where it goes on: on a line of that caller, or on the connection that all share.
//!
//! A server that is reached with one credential for all may list the tasks of all; what is known here tells them apart.
//! Callers do not push each other's out: each has a share, and where all are too many, whoever has the most gives way.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use tokio::time::{Duration, Instant};

use super::{Caller, line::Line};

/// The tasks of one server whose callers are known, oldest first.
#[derive(Debug, Default)]
pub(super) struct KeptTasks {
    tasks: VecDeque<Kept>,
}

#[derive(Debug)]
struct Kept {
    task: String,
    caller: Caller,
    at: At,
}

/// Where a task goes on.
#[derive(Debug)]
enum At {
    /// On the connection that all share, as far as is known until then.
    Base(Instant),
    /// In the session of a line.
    Line(Weak<Line>),
}

/// Tasks of one server in all.
const MOST: usize = 1_024;
/// Of them, those of one caller; its oldest give way.
const PER_CALLER: usize = 256;
/// Nobody keeps a task for longer.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

impl KeptTasks {
    /// A task goes on on this line.
    pub(super) fn keep(&mut self, task: String, line: &Arc<Line>, now: Instant) {
        self.push(Kept { task, caller: line.key.caller.clone(), at: At::Line(Arc::downgrade(line)) }, now);
    }

    /// A task goes on on the connection that all share.
    pub(super) fn keep_on_base(&mut self, task: String, lasts: Option<Duration>, caller: &Caller, now: Instant) {
        // A name that is given away anew is not who had it before.
        self.tasks.retain(|kept| kept.task != task || matches!(kept.at, At::Line(_)));
        let until = now + lasts.unwrap_or(LONGEST).min(LONGEST);
        self.push(Kept { task, caller: caller.clone(), at: At::Base(until) }, now);
    }

    /// The connection that all share has ended: the next one may give the same names to others.
    pub(super) fn forget_base(&mut self) {
        self.tasks.retain(|kept| matches!(kept.at, At::Line(_)));
    }

    /// A caller is gone: whoever has its name later is somebody else.
    pub(super) fn forget(&mut self, caller: &Caller) {
        self.tasks.retain(|kept| kept.caller != *caller);
    }

    /// Whether a caller began this task, or any, and it goes on.
    pub(super) fn has(&self, caller: &Caller, task: Option<&str>, now: Instant) -> bool {
        let such = |kept: &Kept| kept.caller == *caller && task.is_none_or(|task| kept.task == task);
        self.tasks.iter().any(|kept| such(kept) && kept.goes_on(now))
    }

    /// The line on which a caller's task goes on.
    pub(super) fn line(&self, task: &str, caller: &Caller) -> Option<Arc<Line>> {
        let such = |kept: &&Kept| kept.task == task && kept.caller == *caller;
        self.tasks.iter().filter(such).find_map(|kept| match &kept.at {
            At::Line(line) => line.upgrade(),
            At::Base(_) => None,
        })
    }

    fn push(&mut self, kept: Kept, now: Instant) {
        self.tasks.retain(|kept| kept.goes_on(now));
        if let Some(gives_way) = self.who_gives_way(&kept.caller) {
            let oldest = self.tasks.iter().position(|known| known.caller == gives_way);
            oldest.and_then(|oldest| self.tasks.remove(oldest));
        }
        self.tasks.push_back(kept);
    }

    fn who_gives_way(&self, caller: &Caller) -> Option<Caller> {
        let mut counts: HashMap<&Caller, usize> = HashMap::new();
        self.tasks.iter().for_each(|kept| *counts.entry(&kept.caller).or_default() += 1);
        if counts.get(caller).is_some_and(|own| PER_CALLER <= *own) {
            return Some(caller.clone());
        }
        let greediest = || counts.iter().max_by_key(|(_, count)| **count).map(|(caller, _)| Caller::clone(caller));
        if MOST <= self.tasks.len() { greediest() } else { None }
    }
}

impl Kept {
    fn goes_on(&self, now: Instant) -> bool {
        match &self.at {
            At::Base(until) => now < *until,
            At::Line(line) => 0 < line.strong_count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, Instant};

    use super::{Caller, KeptTasks, LONGEST, MOST, PER_CALLER};

    fn client(name: &impl ToString) -> Caller {
        Caller::Client(name.to_string().into())
    }

    #[test]
    fn one_caller_does_not_push_out_anothers() {
        let (mut tasks, now, ada, eve) = (KeptTasks::default(), Instant::now(), client(&"ada"), client(&"eve"));
        tasks.keep_on_base("hers".to_owned(), None, &ada, now);
        for number in 0..2 * MOST {
            tasks.keep_on_base(format!("eve-{number}"), None, &eve, now);
        }
        assert!(tasks.has(&ada, Some("hers"), now) && !tasks.has(&eve, Some("hers"), now));
        assert_eq!(tasks.tasks.len(), 1 + PER_CALLER);
        let newest = format!("eve-{}", 2 * MOST - 1);
        assert!(tasks.has(&eve, Some(&newest), now) && !tasks.has(&eve, Some("eve-0"), now));
        // Where many callers are there, those with the most give way.
        for number in 0..MOST {
            tasks.keep_on_base(format!("task-{number}"), None, &client(&number), now);
        }
        assert_eq!(tasks.tasks.len(), MOST);
        assert!(tasks.has(&client(&(MOST - 1)), None, now));
    }

    #[test]
    fn what_is_over_or_given_away_anew_is_nobodys_any_more() {
        let (mut tasks, now, ada, eve) = (KeptTasks::default(), Instant::now(), client(&"ada"), client(&"eve"));
        tasks.keep_on_base("t1".to_owned(), Some(Duration::from_secs(60)), &ada, now);
        assert!(!tasks.has(&ada, Some("t1"), now + Duration::from_secs(60)));
        tasks.keep_on_base("t1".to_owned(), None, &eve, now);
        assert!(tasks.has(&eve, Some("t1"), now) && !tasks.has(&ada, Some("t1"), now));
        assert!(!tasks.has(&eve, None, now + LONGEST));
        tasks.keep_on_base("t2".to_owned(), None, &ada, now);
        tasks.forget(&ada);
        assert!(!tasks.has(&ada, None, now) && tasks.has(&eve, None, now));
        tasks.forget_base();
        assert!(!tasks.has(&eve, None, now));
    }
}
