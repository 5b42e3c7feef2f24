//! Ways out of the roots, none of which works.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use super::fence::{Operation, Roots, RootsError};

/// A root with a file, next to a folder with a secret.
struct Stage {
    _folder: tempfile::TempDir,
    base: PathBuf,
    roots: Roots,
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("root");
        let outside = base.join("root-evil");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(root.join("sub/a.txt"), "inside").unwrap();
        std::fs::write(outside.join("secret"), "outside").unwrap();
        symlink(&outside, root.join("link")).unwrap();
        symlink("../root-evil/secret", root.join("relative")).unwrap();
        symlink("sub/a.txt", root.join("good")).unwrap();
        symlink("../root-evil/later", root.join("dangling")).unwrap();
        let roots = Roots::open([uri(&root).as_str()]).unwrap();
        Self { _folder: folder, base, roots }
    }

    fn at(&self, rest: &str) -> String {
        format!("{}{rest}", uri(&self.base.join("root")))
    }
}

/// What is appended to the URI of the root to get out.
const WAYS_OUT: [&str; 17] = [
    "-evil/secret",
    "/../root-evil/secret",
    "/%2e%2e/root-evil/secret",
    "/%2E./root-evil/secret",
    "/..%2froot-evil/secret",
    "/sub/..%2f..%2froot-evil/secret",
    "/..\\root-evil\\secret",
    "/..%5croot-evil%5csecret",
    "/link/secret",
    "/link",
    "/relative",
    "/dangling",
    "/sub/a.txt%00",
    "/sub/a.txt?x",
    "/sub/a.txt#x",
    "/%252e%252e/root-evil/secret",
    "/sub/../../root-evil/secret",
];

#[test]
fn files_within_the_roots_are_read_written_and_listed() {
    let stage = Stage::new();
    assert_eq!(stage.roots.read(&stage.at("/sub/a.txt")).unwrap(), b"inside");
    assert_eq!(stage.roots.read(&stage.at("/sub/%61.txt")).unwrap(), b"inside");
    assert_eq!(stage.roots.read(&stage.at("/good")).unwrap(), b"inside", "a link that stays inside");
    stage.roots.write(&stage.at("/sub/new.txt"), b"new").unwrap();
    assert_eq!(std::fs::read(stage.base.join("root/sub/new.txt")).unwrap(), b"new");
    let listed = stage.roots.list(&stage.at("/sub")).unwrap();
    let names: Vec<&str> = listed.iter().map(|entry| entry.uri.rsplit('/').next().unwrap()).collect();
    assert_eq!(names, ["a.txt", "new.txt"]);
    assert!(stage.roots.list(&stage.at("")).unwrap().iter().any(|entry| entry.is_folder));
    for rest in ["", "/", "/sub", "/sub/a.txt", "/missing", "/missing/below", "/./sub/../sub/a.txt"] {
        assert!(stage.roots.contains(&stage.at(rest)), "{rest}");
    }
    stage.roots.check(Operation::Write, &stage.at("/sub/other.txt")).unwrap();
    stage.roots.check(Operation::List, &stage.at("/sub/")).unwrap();
    assert!(matches!(stage.roots.check(Operation::Read, &stage.at("/sub")), Err(RootsError::WrongKind(_))));
    assert!(matches!(stage.roots.check(Operation::Write, &stage.at("/missing/x")), Err(RootsError::Io { .. })));
}

#[test]
fn no_way_leads_out_of_the_roots() {
    let stage = Stage::new();
    for way in WAYS_OUT {
        let uri = stage.at(way);
        // A name that only looks like a way out, as a percent sign that is a percent sign, can be a file inside.
        let is_name = way.contains("%252e") || way.contains("%5c");
        assert!(is_name || !stage.roots.contains(&uri), "{way}");
        assert!(stage.roots.read(&uri).is_err(), "{way}");
        assert!(is_name || stage.roots.write(&uri, b"changed").is_err(), "{way}");
        assert!(stage.roots.list(&uri).is_err(), "{way}");
    }
    for uri in [
        "file:///etc/passwd",
        "file://host.example/etc/passwd",
        "file:///C:/Windows",
        "file:///C|/Windows",
        "file:////etc/passwd",
        "FILE:///etc/passwd",
        "https://a.example/etc/passwd",
        "/etc/passwd",
        "etc",
        "",
    ] {
        assert!(!stage.roots.contains(uri) && stage.roots.read(uri).is_err(), "{uri}");
    }
    let outside = stage.base.join("root-evil");
    assert_eq!(std::fs::read(outside.join("secret")).unwrap(), b"outside");
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 1, "nothing was created");
}

#[test]
fn a_folder_that_is_replaced_by_a_link_leads_nowhere() {
    let stage = Stage::new();
    stage.roots.check(Operation::Read, &stage.at("/sub/a.txt")).unwrap();
    std::fs::rename(stage.base.join("root/sub"), stage.base.join("moved")).unwrap();
    symlink(stage.base.join("root-evil"), stage.base.join("root/sub")).unwrap();
    assert!(matches!(stage.roots.read(&stage.at("/sub/secret")), Err(RootsError::Outside(_))));
    // The root itself may be moved: its handle stays.
    std::fs::rename(stage.base.join("root"), stage.base.join("elsewhere")).unwrap();
    symlink(stage.base.join("root-evil"), stage.base.join("root")).unwrap();
    assert!(stage.roots.read(&stage.at("/secret")).is_err());
}

#[test]
fn a_root_can_be_named_by_a_link_to_it() {
    let stage = Stage::new();
    symlink(stage.base.join("root"), stage.base.join("alias")).unwrap();
    let alias = uri(&stage.base.join("alias"));
    let roots = Roots::open([alias.as_str()]).unwrap();
    assert_eq!(roots.read(&format!("{alias}/sub/a.txt")).unwrap(), b"inside");
    assert_eq!(roots.read(&stage.at("/sub/a.txt")).unwrap(), b"inside");
    assert!(Roots::open([uri(&stage.base.join("none")).as_str()]).is_err());
}

#[test]
fn what_is_no_file_is_neither_read_nor_written_and_delays_nothing() {
    let stage = Stage::new();
    let pipe = stage.base.join("root/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(stage.base.join("root/socket")).unwrap();
    for rest in ["/pipe", "/socket", "/sub", "/sub/"] {
        let uri = stage.at(rest);
        assert!(matches!(stage.roots.read(&uri), Err(RootsError::WrongKind(_))), "{rest}");
        assert!(matches!(stage.roots.write(&uri, b"x"), Err(RootsError::WrongKind(_))), "{rest}");
    }
    // With a reader, the pipe can be opened for writing.
    let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    assert!(matches!(stage.roots.write(&stage.at("/pipe"), b"x"), Err(RootsError::WrongKind(_))));
    // Nothing is emptied before it is known to be a file that may be written.
    stage.roots.write(&stage.at("/sub/a.txt"), b"new").unwrap();
    assert_eq!(std::fs::read(stage.base.join("root/sub/a.txt")).unwrap(), b"new", "shorter than before");
}

#[cfg(target_os = "linux")]
#[test]
fn links_that_the_system_resolves_by_itself_lead_nowhere() {
    let roots = Roots::open(["file:///proc/self"]).unwrap();
    for rest in ["/root/etc/passwd", "/cwd/Cargo.toml", "/fd/0", "/exe", "/task/../root/etc/passwd"] {
        assert!(roots.read(&format!("file:///proc/self{rest}")).is_err(), "{rest}");
    }
    assert!(!roots.contains("file:///proc/self/root/etc/passwd"));
}
