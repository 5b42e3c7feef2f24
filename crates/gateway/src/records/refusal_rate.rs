//! Limits the log lines about refused requests, so that a flood of them hides nothing else.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// Lines in the current interval.
#[derive(Debug, Default)]
pub(super) struct RefusalRate {
    began: Option<Instant>,
    by_peer: HashMap<IpAddr, u32>,
    suppressed: u64,
}

/// Length of an interval.
const INTERVAL: Duration = Duration::from_secs(10);
/// Lines about one peer address in an interval.
const LINES_PER_PEER: u32 = 20;
/// Addresses with lines in an interval.
const PEERS: usize = 1_000;

impl RefusalRate {
    /// Whether a line about this peer is written, and the number of lines that were suppressed in the previous interval.
    pub(super) fn admit(&mut self, peer: IpAddr, now: Instant) -> (bool, u64) {
        let mut before = 0;
        if self.began.is_none_or(|began| INTERVAL <= now.saturating_duration_since(began)) {
            before = std::mem::take(&mut self.suppressed);
            self.began = Some(now);
            self.by_peer.clear();
        }
        let known = self.by_peer.len();
        let lines = match self.by_peer.get_mut(&peer) {
            Some(lines) => Some(lines),
            None if known < PEERS => Some(self.by_peer.entry(peer).or_default()),
            None => None,
        };
        let admitted = match lines {
            Some(lines) if *lines < LINES_PER_PEER => {
                *lines += 1;
                true
            }
            _ => false,
        };
        self.suppressed += u64::from(!admitted);
        (admitted, before)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Instant};

    use super::{INTERVAL, LINES_PER_PEER, RefusalRate};

    #[test]
    fn one_address_does_not_hide_another_and_suppressed_lines_are_counted() {
        let (mut rate, now) = (RefusalRate::default(), Instant::now());
        let [one, other]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let admitted = (0..100).filter(|_| rate.admit(one, now).0).count();
        assert_eq!(admitted, LINES_PER_PEER as usize);
        assert_eq!(rate.admit(other, now), (true, 0));
        assert_eq!(rate.admit(one, now + INTERVAL), (true, 100 - u64::from(LINES_PER_PEER)));
    }
}
