//! Roots: no URI reads, lists or finds anything outside of the root.
#![no_main]

use std::{os::unix::fs::symlink, path::PathBuf, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use toolway_fuzz::roots::fence::{Operation, Roots};

/// A root next to a folder with a secret, and links between them.
struct Stage {
    _folder: tempfile::TempDir,
    base: PathBuf,
    roots: Roots,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let root = base.join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::create_dir(base.join("root-evil")).unwrap();
    std::fs::write(root.join("sub/a"), "inside").unwrap();
    std::fs::write(base.join("root-evil/a"), "outside").unwrap();
    symlink("../root-evil", root.join("l")).unwrap();
    symlink(base.join("root-evil/a"), root.join("m")).unwrap();
    symlink("sub", root.join("n")).unwrap();
    let roots = Roots::open([format!("file://{}", root.display()).as_str()]).unwrap();
    Stage { _folder: folder, base, roots }
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let base = STAGE.base.join("root");
    for uri in [text.to_owned(), format!("file://{}{text}", base.display()), format!("file://{}/{text}", base.display())] {
        let roots = &STAGE.roots;
        if let Ok(content) = roots.read(&uri) {
            assert_eq!(content, b"inside", "{uri:?}");
            assert!(roots.contains(&uri), "{uri:?}");
        }
        for entry in roots.list(&uri).into_iter().flatten() {
            assert!(entry.uri.starts_with(&format!("file://{}/", base.display())), "{uri:?}: {entry:?}");
        }
        // What the standard library finds at the path of the URI is inside, if we say so.
        let path = url::Url::parse(&uri).ok().and_then(|url| url.to_file_path().ok());
        if let Some(real) = path.and_then(|path| path.canonicalize().ok())
            && roots.contains(&uri)
        {
            assert!(real.starts_with(&base), "{uri:?}: {real:?}");
        }
        let _checked = roots.check(Operation::Write, &uri);
    }
});
