//! Third-party servers and how each is started; see `tests/interop/README.md`.

use std::{
    ffi::OsString,
    net::TcpListener,
    path::{Path, PathBuf},
};

use toolway_host::connection::Program;

/// `server-everything`, over the transport it calls `stdio`.
pub(crate) fn everything() -> Program {
    node("server-everything", &["stdio"])
}

/// `server-everything` on a port, over `streamableHttp` or `sse`.
pub(crate) fn everything_on(transport: &str, port: u16) -> Program {
    let mut program = node("server-everything", &[transport]);
    program.variables.insert("PORT".into(), port.to_string().into());
    program
}

/// `server-filesystem` with these folders on its command line.
pub(crate) fn filesystem(folders: &[&Path]) -> Program {
    let folders: Vec<&str> = folders.iter().map(|folder| folder.to_str().unwrap()).collect();
    node("server-filesystem", &folders)
}

/// `server-memory` with its memory in this file.
pub(crate) fn memory(file: &Path) -> Program {
    let mut program = node("server-memory", &[]);
    program.variables.insert("MEMORY_FILE_PATH".into(), file.into());
    program
}

/// `mcp-server-time`.
pub(crate) fn time() -> Program {
    let path = installed(".interop/venv/bin/mcp-server-time");
    program(&path, &["--local-timezone", "Etc/UTC"])
}

/// The server on `fastmcp`, over `stdio`, `http` or `sse`.
pub(crate) fn fastmcp(transport: &str) -> Program {
    python("fastmcp_server.py", transport)
}

/// The server on the Python SDK, over `stdio` or `http`.
pub(crate) fn python_sdk(transport: &str) -> Program {
    python("python_sdk_server.py", transport)
}

/// The same Python server, on this port.
pub(crate) fn on_port(mut program: Program, port: u16) -> Program {
    program.arguments.extend(["--port".to_owned(), port.to_string()]);
    program
}

/// The server on `rmcp`, over `stdio` or `http`, in `legacy`, `modern` or `both` eras.
pub(crate) fn rmcp(transport: &str, era: &str) -> Program {
    // Tests are built into `deps`, programs into its parent.
    let here = std::env::current_exe().unwrap();
    let path = here.ancestors().nth(2).unwrap().join("rmcp-peer");
    assert!(path.exists(), "{} is missing: run ./test, which builds it", path.display());
    program(&path, &[transport, "--era", era])
}

/// Only Node and the shell.
pub(crate) fn search_path() -> OsString {
    let bin = root().join(".interop/node_modules/.bin");
    std::env::join_paths([bin.as_path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap()
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn node(package: &str, arguments: &[&str]) -> Program {
    let name = package.replace("server-", "mcp-server-");
    program(&installed(&format!(".interop/node_modules/.bin/{name}")), arguments)
}

fn python(script: &str, transport: &str) -> Program {
    let python = installed(".interop/venv/bin/python");
    let script = root().join("tests/interop/servers").join(script);
    program(&python, &[script.to_str().unwrap(), "--transport", transport])
}

fn program(path: &Path, arguments: &[&str]) -> Program {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    Program { arguments, ..Program::new(path.to_str().unwrap()) }
}

fn installed(path: &str) -> PathBuf {
    let path = root().join(path);
    assert!(path.exists(), "{} is missing: run ./test, which installs it", path.display());
    path
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
