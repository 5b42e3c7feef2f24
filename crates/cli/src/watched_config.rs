//! The configuration of a running `serve`, one value for its gateway and its console. It is read again when its file has
//! changed or when the user asks for it; a file that cannot be used leaves the last valid value in use.
//!
//! Servers are connected by the value that `toolway config reload`, or a change in the console, applies to the host: a
//! server could edit the file, and must not get its own edit applied.

use std::{path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use toolway_config::{Config, FileStamp, Loaded};

/// The last valid configuration, and why a newer one is not used.
pub(crate) struct WatchedConfig {
    read: ReadConfig,
    // Nothing awaits under this lock. A reader waits while it is read again.
    state: Mutex<WatchedState>,
}

/// Reads the files; the error is one sentence.
pub(crate) type ReadConfig = Box<dyn Fn() -> Result<Loaded, String> + Send + Sync>;

struct WatchedState {
    loaded: Arc<Loaded>,
    problem: Option<String>,
    watched: Vec<WatchedFile>,
}

/// A file or folder that decides whether the configuration is read again.
#[derive(Debug, PartialEq, Eq)]
struct WatchedFile {
    path: PathBuf,
    stamp: Option<FileStamp>,
}

// === impl WatchedConfig ===

impl WatchedConfig {
    /// Watches a configuration that was just read.
    pub(crate) fn new(loaded: Loaded, read: ReadConfig) -> Self {
        let watched = files_of(&loaded);
        Self { read, state: Mutex::new(WatchedState { loaded: Arc::new(loaded), problem: None, watched }) }
    }

    /// The last valid configuration, read again if its file has changed.
    pub(crate) fn current(&self) -> Arc<Loaded> {
        let mut state = self.state.lock();
        if !state.is_unchanged() {
            self.read_into(&mut state);
        }
        Arc::clone(&state.loaded)
    }

    /// Why the file as it is now is not used; `None` if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        self.current();
        self.state.lock().problem.clone()
    }

    /// Reads the configuration again, changed or not: it may also depend on files of other programs.
    pub(crate) fn reload(&self) -> Result<Config, String> {
        let mut state = self.state.lock();
        self.read_into(&mut state);
        match &state.problem {
            Some(problem) => Err(problem.clone()),
            None => Ok(state.loaded.config.clone()),
        }
    }

    fn read_into(&self, state: &mut WatchedState) {
        // Before reading: a change while it is read is then found the next time.
        state.watched.iter_mut().for_each(|file| *file = WatchedFile::at(std::mem::take(&mut file.path)));
        match (self.read)() {
            Ok(loaded) => {
                let before = std::mem::take(&mut state.watched);
                state.watched = files_of(&loaded);
                // The same files keep the stamps from before the reading.
                for file in &mut state.watched {
                    if let Some(known) = before.iter().find(|known| known.path == file.path) {
                        file.stamp = known.stamp;
                    }
                }
                state.loaded = Arc::new(loaded);
                state.problem = None;
            }
            Err(problem) => {
                if state.problem.as_ref() != Some(&problem) {
                    tracing::error!(%problem, "the configuration is invalid; the last valid one stays in use");
                }
                state.problem = Some(problem);
            }
        }
    }
}

// === impl WatchedState ===

impl WatchedState {
    fn is_unchanged(&self) -> bool {
        self.watched.iter().all(|file| WatchedFile::at(file.path.clone()) == *file)
    }
}

// === impl WatchedFile ===

impl WatchedFile {
    /// The path with its stamp now. One that cannot be examined counts as missing.
    fn at(path: PathBuf) -> Self {
        let stamp = FileStamp::of(&path).ok().flatten();
        Self { path, stamp }
    }
}

/// The files that were read, and the folder in which the user's own file may appear under another name.
fn files_of(loaded: &Loaded) -> Vec<WatchedFile> {
    let own = loaded.own_file.iter();
    let folder = own.clone().filter_map(|file| file.parent()).map(std::path::Path::to_owned);
    let mut paths: Vec<PathBuf> = loaded.files.iter().chain(own).cloned().chain(folder).collect();
    paths.sort();
    paths.dedup();
    paths.into_iter().map(WatchedFile::at).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use toolway_config::Loaded;

    use super::WatchedConfig;

    /// A configuration whose file is its default model; an empty file is invalid.
    struct Stage {
        folder: tempfile::TempDir,
        reads: Arc<AtomicUsize>,
    }

    impl Stage {
        fn new() -> Self {
            let stage = Self { folder: tempfile::tempdir().unwrap(), reads: Arc::default() };
            stage.write("one");
            stage
        }

        fn write(&self, text: &str) {
            std::fs::write(self.folder.path().join("toolway.json"), text).unwrap();
        }

        fn watch(&self) -> WatchedConfig {
            let file = self.folder.path().join("toolway.json");
            let reads = Arc::clone(&self.reads);
            let again = file.clone();
            let read = move || {
                reads.fetch_add(1, Ordering::Relaxed);
                read(&again)
            };
            WatchedConfig::new(read_first(&file), Box::new(read))
        }

        fn reads(&self) -> usize {
            self.reads.load(Ordering::Relaxed)
        }
    }

    fn read_first(file: &Path) -> Loaded {
        read(file).unwrap()
    }

    fn read(file: &Path) -> Result<Loaded, String> {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        if text.is_empty() {
            return Err("the file is empty".to_owned());
        }
        let mut loaded = Loaded { own_file: Some(file.to_owned()), files: vec![file.to_owned()], ..Loaded::default() };
        loaded.config.settings.default_model.value = Some(text);
        Ok(loaded)
    }

    fn model(watched: &WatchedConfig) -> Option<String> {
        watched.current().config.settings.default_model.value.clone()
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        let stage = Stage::new();
        let watched = stage.watch();
        for _ in 0..10 {
            assert_eq!(model(&watched).as_deref(), Some("one"));
        }
        assert_eq!((stage.reads(), watched.problem()), (0, None));
        stage.write("three");
        assert_eq!(model(&watched).as_deref(), Some("three"));
        assert_eq!(model(&watched).as_deref(), Some("three"));
        assert_eq!(stage.reads(), 1);
    }

    #[test]
    fn an_invalid_file_leaves_the_last_valid_value_and_a_problem() {
        let stage = Stage::new();
        let watched = stage.watch();
        stage.write("");
        assert_eq!(model(&watched).as_deref(), Some("one"));
        assert_eq!(watched.problem().as_deref(), Some("the file is empty"));
        assert_eq!(watched.reload().unwrap_err(), "the file is empty");
        assert_eq!(stage.reads(), 2, "it is read again only when asked to");
        stage.write("four");
        assert_eq!((watched.problem(), model(&watched).as_deref()), (None, Some("four")));
    }

    #[test]
    fn a_removed_file_is_noticed() {
        let stage = Stage::new();
        let watched = stage.watch();
        std::fs::remove_file(stage.folder.path().join("toolway.json")).unwrap();
        assert_eq!(model(&watched).as_deref(), Some("one"));
        assert!(watched.problem().is_some());
    }
}
