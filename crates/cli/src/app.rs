//! The context of one command: environment, paths, global options, and what stops it.

use std::{
    io::Read,
    sync::{Arc, OnceLock},
};

use toolway_auth::vault::Vault;
use toolway_config::{Environment, Paths};
use toolway_wire::limit::MESSAGE_BYTES;

use crate::{
    args::{ReachArgs, ShowArgs},
    logging::Log,
    message_export::{ExportEnd, MessageExport},
    output::Output,
    report::Report,
    stop::Stop,
};

/// Context of one command run.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) environment: Environment,
    pub(crate) paths: Paths,
    pub(crate) reach: ReachArgs,
    pub(crate) show: ShowArgs,
    pub(crate) log: Log,
    pub(crate) stop: Stop,
    /// Where `--export` writes the messages of all servers.
    pub(crate) export: Option<Arc<MessageExport>>,
    /// The vault of this process, once it is used: one that stores nothing on disk must be the same everywhere.
    pub(crate) vault: Arc<OnceLock<Arc<dyn Vault>>>,
}

impl App {
    pub(crate) fn new(environment: Environment, reach: ReachArgs, show: ShowArgs, log: Log) -> Self {
        let paths = Paths::of(&environment);
        let stop = Stop::watch(reach.timeout);
        Self { environment, paths, reach, show, log, stop, export: None, vault: Arc::default() }
    }

    /// The same context for work that outlives the command's own future.
    pub(crate) fn detached(&self) -> Self {
        let app = Self::new(self.environment.clone(), self.reach.clone(), self.show.clone(), self.log.clone());
        Self { vault: Arc::clone(&self.vault), export: self.export.clone(), ..app }
    }

    /// Writes the summary of the export, and says where it is.
    pub(crate) fn end_export(&self, output: &mut Output) {
        let Some(export) = &self.export else { return };
        let ExportEnd { path, messages, omitted, failure } = export.end();
        let path = path.display();
        if let Some(failure) = failure {
            output.notice(&format!("toolway: cannot write the export `{path}`: {failure}"));
            return;
        }
        let left_out = if omitted == 0 { String::new() } else { format!("; the last {omitted} only in its summary") };
        output.notice(&format!("toolway: exported {messages} messages to {path}{left_out}"));
    }

    /// Reads standard input to its end if `wanted`, else returns nothing. Ctrl-C and `--timeout` still stop the command.
    pub(crate) async fn stdin(&self, wanted: bool) -> Result<Vec<u8>, Report> {
        if !wanted {
            return Ok(Vec::new());
        }
        let reading = tokio::task::spawn_blocking(|| read_bounded(std::io::stdin().lock(), MESSAGE_BYTES));
        let failed = |problem: String| Report::usage("arguments", format!("cannot read standard input: {problem}"));
        match self.stop.or(reading).await? {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// Reads a whole stream. Fails if it has more than `most` bytes; a truncated message would be wrong.
fn read_bounded(stream: impl Read, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if most < bytes.len() {
        return Err(std::io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::read_bounded;

    #[test]
    fn oversized_input_is_refused_not_truncated() {
        assert_eq!(read_bounded(&b"four"[..], 4).unwrap(), b"four");
        assert_eq!(read_bounded(&b"fiver"[..], 4).unwrap_err().to_string(), "larger than 4 bytes");
    }
}
