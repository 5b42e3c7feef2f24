//! Drives a headless Chromium over its DevTools protocol.
//!
//! The browser is a program in the `bin` directory of a test home, so that it is opened like a user's browser. It is
//! controlled over two pipes in that directory and ends when they are closed. It can reach this machine only.

use std::{
    fs::{File, Permissions},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

/// A browser that starts when [`Chromium::program`] is run with a URL.
#[derive(Debug)]
pub struct Chromium {
    program: PathBuf,
    orders: File,
    answers: PathBuf,
}

/// One tab of the browser.
#[derive(Debug)]
pub struct Tab {
    orders: File,
    answers: BufReader<File>,
    session: Value,
    number: u64,
}

/// Time limit for a page; a busy machine needs seconds.
const PATIENCE: Duration = Duration::from_secs(40);
/// Interval between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// `$0` is in the directory of the pipes. Name lookups of Chromium itself fail.
const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$0")
exec chromium-headless-shell --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking \
    --allow-pre-commit-input --user-data-dir="$here/profile" \
    --host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1' \
    --remote-debugging-pipe "$@" 3<"$here/orders" 4>"$here/answers"
"#;

// === impl Chromium ===

impl Chromium {
    /// Installs the program and its pipes in a directory.
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        let (program, orders, answers) = (folder.join("chromium"), folder.join("orders"), folder.join("answers"));
        std::fs::write(&program, SCRIPT)?;
        std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        for pipe in [&orders, &answers] {
            mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        // Opened for reading and writing, so that it does not block.
        let orders = File::options().read(true).write(true).open(orders)?;
        Ok(Self { program, orders, answers })
    }

    /// Program to run with a URL.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Waits until the program was started, and attaches to its tab.
    pub fn tab(self) -> io::Result<Tab> {
        let answers = BufReader::new(File::open(&self.answers)?);
        let mut tab = Tab { orders: self.orders, answers, session: Value::Null, number: 0 };
        let page = tab.until("a tab", |tab| {
            let targets = tab.order("Target.getTargets", &json!({}))?;
            let targets = targets["targetInfos"].as_array().cloned().unwrap_or_default();
            Ok(targets.into_iter().find(|target| target["type"] == "page").map(|page| page["targetId"].clone()))
        })?;
        let attached = tab.order("Target.attachToTarget", &json!({ "targetId": page, "flatten": true }))?;
        tab.session = attached["sessionId"].clone();
        Ok(tab)
    }
}

// === impl Tab ===

impl Tab {
    /// Waits for the element with this id, and clicks it with the mouse.
    pub fn press(&mut self, id: &str) -> io::Result<()> {
        let place = format!(
            "(() => {{ const it = document.getElementById({}); if (!it || document.readyState !== 'complete') return null; \
             const at = it.getBoundingClientRect(); return {{ x: at.x + at.width / 2, y: at.y + at.height / 2 }} }})()",
            json!(id)
        );
        let at = self.until(id, |tab| tab.evaluate(&place))?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1 });
            self.order("Input.dispatchMouseEvent", &event)?;
        }
        Ok(())
    }

    /// Waits for a complete page at this path and returns its visible text.
    pub fn text_at(&mut self, path: &str) -> io::Result<String> {
        let text = format!(
            "location.pathname === {} && document.readyState === 'complete' ? document.body.innerText : null",
            json!(path)
        );
        let text = self.until(path, |tab| tab.evaluate(&text))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Closes the browser and waits until it has ended.
    pub fn close(mut self) -> io::Result<()> {
        drop(self.orders);
        io::copy(&mut self.answers, &mut io::sink()).map(|_| ())
    }

    /// Value of an expression on the page; `None` while there is no page.
    fn evaluate(&mut self, expression: &str) -> io::Result<Option<Value>> {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.order("Runtime.evaluate", &asked)?;
        Ok(answer["result"].get("value").filter(|value| !value.is_null()).cloned())
    }

    fn until(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> io::Result<Option<Value>>) -> io::Result<Value> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            thread::sleep(PAUSE);
        }
        let shown = self.evaluate("location.href + '\\n' + document.documentElement.outerHTML")?;
        Err(io::Error::other(format!("{what} did not appear; the page is: {shown:?}")))
    }

    /// Sends one command; returns its result, or null if it was refused, for example by a page that was just left.
    fn order(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        self.number += 1;
        let mut order = json!({ "id": self.number, "method": method, "params": params });
        if !self.session.is_null() {
            order["sessionId"] = self.session.clone();
        }
        let mut order = order.to_string().into_bytes();
        order.push(0);
        self.orders.write_all(&order)?;
        loop {
            let mut answer = Vec::new();
            if self.answers.read_until(0, &mut answer)? == 0 {
                return Err(io::Error::other("the browser has ended"));
            }
            let answer: Value = serde_json::from_slice(answer.strip_suffix(&[0]).unwrap_or(&answer))?;
            if answer["id"] == self.number {
                return Ok(answer["result"].clone());
            }
        }
    }
}
