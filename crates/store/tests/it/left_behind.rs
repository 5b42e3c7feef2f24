//! What a killed process leaves, when it cannot be read as it was written. Nothing of it is lost silently.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toolway_store::{OpenNotice, Reader, Store, StoreOptions, Uuid};

use crate::{
    load::{acknowledged_under_lock, all, assert_complete, copy},
    stage::Stage,
};

/// A folder as a process left it that was killed under load.
struct Killed {
    folder: tempfile::TempDir,
    acknowledged: Vec<Uuid>,
}

impl Killed {
    async fn new() -> Self {
        let (stage, folder) = (Stage::new(), tempfile::tempdir().unwrap());
        let store = stage.open();
        let (acknowledged, _lock) = acknowledged_under_lock(&stage, &store).await;
        copy(stage.path().parent().unwrap(), folder.path());
        Self { folder, acknowledged }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("toolway.db")
    }

    fn open(&self) -> (Store, Option<OpenNotice>) {
        Store::open(&StoreOptions { path: Some(self.path()), ..StoreOptions::default() }).unwrap()
    }

    fn reader(&self) -> Reader {
        Reader::open(&self.path()).unwrap().unwrap()
    }

    /// The journal with the acknowledged calls.
    fn journal(&self) -> PathBuf {
        let files = fs::read_dir(self.folder.path().join("toolway.db.runs")).unwrap().map(|file| file.unwrap().path());
        let journals = files.filter(|path| path.to_str().unwrap().contains(".journal-"));
        journals.max_by_key(|path| generation(path)).unwrap()
    }
}

fn generation(journal: &Path) -> Option<[u8; 8]> {
    fs::read(journal).unwrap().first_chunk().copied()
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_is_left_and_applied_when_it_can_be() {
    let killed = Killed::new().await;
    let (journal, away) = (killed.journal(), killed.folder.path().join("away"));
    fs::rename(&journal, &away).unwrap();
    fs::create_dir(&journal).unwrap();
    drop(killed.open());
    assert!(killed.reader().call(killed.acknowledged[0]).unwrap().is_none());
    fs::remove_dir(&journal).unwrap();
    fs::rename(&away, &journal).unwrap();
    assert_complete(&killed.reader(), &killed.acknowledged);
    assert!(!journal.exists());
}

#[tokio::test]
async fn a_damaged_journal_is_applied_up_to_the_damage_and_kept() {
    let killed = Killed::new().await;
    let journal = killed.journal();
    let mut bytes = fs::read(&journal).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&journal, &bytes).unwrap();
    drop(killed.open());
    let (lost, complete) = killed.acknowledged.split_last().unwrap();
    assert_complete(&killed.reader(), complete);
    assert!(killed.reader().call(*lost).unwrap().is_none());
    drop(killed.open());
    assert!(!journal.exists());
    assert_eq!(fs::read(journal.with_added_extension("corrupt")).unwrap(), bytes);
}

#[tokio::test]
async fn journals_stay_with_a_corrupt_database_that_is_set_aside() {
    let killed = Killed::new().await;
    let (journal, bytes) = (killed.journal(), fs::read(killed.journal()).unwrap());
    fs::remove_file(killed.folder.path().join("toolway.db-wal")).unwrap();
    fs::write(killed.path(), "this is not a database ".repeat(100)).unwrap();
    let (store, notice) = killed.open();
    let Some(notice @ OpenNotice::SetAside { .. }) = notice else { panic!("a notice") };
    let OpenNotice::SetAside { moved_to, journals: Some(journals), .. } = &notice else { panic!("{notice}") };
    assert!(fs::read_to_string(moved_to).unwrap().starts_with("this is not a database"));
    assert_eq!(fs::read(journals.join(journal.file_name().unwrap())).unwrap(), bytes);
    assert!(notice.to_string().contains(journals.to_str().unwrap()), "{notice}");
    assert_eq!(store.reader().unwrap().calls(&all()).unwrap(), []);
}
