//! Reconnection of a server: how often, and with which delays.

use std::time::Duration;

use crate::{
    error::ConfigError,
    shape::{Field, Shape},
};

/// Default delay before the first retry.
pub const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// Default of the longest delay between two retries.
pub const MAX_DELAY: Duration = Duration::from_secs(30);

/// How a server is connected again after a failure, as an entry sets it; `None` means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconnect {
    /// Maximum number of consecutive retries; `None` means unlimited.
    pub attempts: Option<u32>,
    /// Delay before the first retry; it doubles with each failure.
    pub initial_delay: Option<Duration>,
    /// Longest delay between two retries.
    pub max_delay: Option<Duration>,
}

/// Type of `reconnect`.
pub(crate) const RECONNECT: Shape = Shape::Members(KEYS);

const KEYS: &[(&str, Shape)] = &[("attempts", Shape::Count), ("initialDelay", Shape::Time), ("maxDelay", Shape::Time)];

/// Parses `reconnect`; `attempts` of `before` (from `retries`) is kept unless the object sets it.
pub(crate) fn reconnect(field: &Field<'_>, before: Reconnect) -> Result<Reconnect, ConfigError> {
    let mut reconnect = before;
    for (key, field) in field.members()? {
        match key {
            "attempts" => reconnect.attempts = Some(field.count()?),
            "initialDelay" => reconnect.initial_delay = Some(field.time()?),
            "maxDelay" => reconnect.max_delay = Some(field.time()?),
            _ => return Err(field.unknown(KEYS.iter().map(|(name, _)| *name))),
        }
    }
    match (reconnect.initial_delay, reconnect.max_delay) {
        (Some(initial), Some(max)) if max < initial => Err(field.below("maxDelay").expected("at least `initialDelay`")),
        _ => Ok(reconnect),
    }
}

impl Reconnect {
    /// First and longest delay, with the defaults applied. A single configured delay moves the default of the other one.
    pub fn delays(&self) -> (Duration, Duration) {
        let initial = self.initial_delay.unwrap_or_else(|| INITIAL_DELAY.min(self.max_delay.unwrap_or(INITIAL_DELAY)));
        (initial, self.max_delay.unwrap_or(MAX_DELAY).max(initial))
    }

    /// These settings, overridden by those that the nearer entry sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            attempts: nearer.attempts.or(self.attempts),
            initial_delay: nearer.initial_delay.or(self.initial_delay),
            max_delay: nearer.max_delay.or(self.max_delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Reconnect;

    #[test]
    fn one_configured_delay_moves_the_default_of_the_other() {
        let seconds = Duration::from_secs;
        let delays = |initial: Option<u64>, max: Option<u64>| {
            let (initial_delay, max_delay) = (initial.map(Duration::from_millis), max.map(Duration::from_millis));
            Reconnect { attempts: None, initial_delay, max_delay }.delays()
        };
        assert_eq!(delays(None, None), (seconds(1), seconds(30)));
        assert_eq!(delays(Some(60_000), None), (seconds(60), seconds(60)));
        assert_eq!(delays(None, Some(500)), (Duration::from_millis(500), Duration::from_millis(500)));
        assert_eq!(delays(Some(200), Some(5_000)), (Duration::from_millis(200), seconds(5)));
    }
}
