//! What every command of servers has at hand: the environment, the configuration, the keyboard and the clock.

use std::io::Read;

use toolway_config::{Environment, Paths};
use toolway_wire::limit::MESSAGE_BYTES;

use crate::{
    args::{ReachArgs, ShowArgs},
    report::Report,
    stop::Stop,
};

/// One run of the program.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) environment: Environment,
    pub(crate) paths: Paths,
    pub(crate) reach: ReachArgs,
    pub(crate) show: ShowArgs,
    pub(crate) stop: Stop,
}

impl App {
    pub(crate) fn new(environment: Environment, reach: ReachArgs, show: ShowArgs) -> Self {
        let paths = Paths::of(&environment);
        let stop = Stop::watch(reach.timeout);
        Self { environment, paths, reach, show, stop }
    }

    /// Standard input to its end, where it is wanted. The keyboard can still stop the command.
    pub(crate) async fn stdin(&self, wanted: bool) -> Result<Vec<u8>, Report> {
        if !wanted {
            return Ok(Vec::new());
        }
        let reading = tokio::task::spawn_blocking(|| all_of(std::io::stdin().lock(), MESSAGE_BYTES));
        let failed = |problem: String| Report::usage("arguments", format!("Cannot read standard input: {problem}."));
        match self.stop.or(reading).await? {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// Everything a stream has, unless it is more than a message may hold: half of it is not what somebody meant to send.
fn all_of(stream: impl Read, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if most < bytes.len() {
        return Err(std::io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::all_of;

    #[test]
    fn what_is_too_much_is_not_cut() {
        assert_eq!(all_of(&b"four"[..], 4).unwrap(), b"four");
        assert_eq!(all_of(&b"fiver"[..], 4).unwrap_err().to_string(), "it is larger than 4 bytes");
    }
}
