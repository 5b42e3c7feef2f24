//! Entries of servers that were read for the guards of a catalog, with the stamps of the files that they name: a server that
//! announces changes of its lists does not make us read the files of all others again.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use toolway_config::ServerName;

use crate::{call::EntryNow, connection::WantedServer, policy::baseline::Baseline};

/// The entries that were read last, by server.
#[derive(Default)]
pub(super) struct KnownEntries {
    // No await under this lock.
    entries: Mutex<HashMap<ServerName, Arc<KnownEntry>>>,
}

struct KnownEntry {
    wanted: Arc<WantedServer>,
    entry: EntryNow,
}

impl KnownEntries {
    /// What was read of this entry, unless it or a file that it names has changed since. Looks at files, and reads none.
    pub(super) fn current(&self, wanted: &Arc<WantedServer>) -> Option<Baseline> {
        let known = self.entries.lock().get(&wanted.name).cloned()?;
        (Arc::ptr_eq(&known.wanted, wanted) && known.entry.is_current()).then(|| known.entry.baseline().clone())
    }

    /// Keeps what was read of an entry.
    pub(super) fn keep(&self, wanted: &Arc<WantedServer>, entry: EntryNow) -> Baseline {
        let baseline = entry.baseline().clone();
        let known = KnownEntry { wanted: Arc::clone(wanted), entry };
        self.entries.lock().insert(wanted.name.clone(), Arc::new(known));
        baseline
    }

    /// Forgets other servers than these.
    pub(super) fn retain(&self, is_kept: impl Fn(&ServerName) -> bool) {
        self.entries.lock().retain(|server, _| is_kept(server));
    }
}

#[cfg(test)]
mod tests {
    use toolway_config::{Config, Environment, document::Document};

    use super::{Arc, EntryNow, KnownEntries, WantedServer};

    #[test]
    fn an_entry_is_read_again_only_if_it_or_a_file_that_it_names_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("server.py");
        std::fs::write(&script, "print(1)").unwrap();
        let text = format!(r#"{{"mcpServers": {{"s": {{"command": "python3", "args": ["{}"]}}}}}}"#, script.display());
        let config = Config::of(&Document::of("/x/toolway.json".as_ref(), &text).unwrap(), None).unwrap();
        let wanted = || Arc::new(WantedServer::configured(&config, config.find("s").unwrap()));
        let read = |wanted: &WantedServer| EntryNow::read(wanted, &Environment::default(), 0);
        let known = KnownEntries::default();
        let one = wanted();
        assert!(known.current(&one).is_none());
        let before = known.keep(&one, read(&one));
        assert_eq!(known.current(&one).as_ref(), Some(&before));
        assert!(known.current(&wanted()).is_none(), "another configuration");
        std::fs::write(&script, "print(22)").unwrap();
        assert!(known.current(&one).is_none(), "another program");
        assert_ne!(known.keep(&one, read(&one)).digest, before.digest);
        assert!(known.current(&one).is_some());
        std::fs::remove_file(&script).unwrap();
        assert!(known.current(&one).is_none());
        known.keep(&one, read(&one));
        known.retain(|server| server.as_str() != "s");
        assert!(known.current(&one).is_none());
    }
}
