//! Keys of the terminal outside of prompts: a question of one key, and a list to choose from. The terminal is restored when
//! the keys are dropped.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crossterm::{
    event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    terminal,
};

use super::prompt_session::{self, TICK};
use crate::{app::App, report::Report};

/// The keys of the terminal, until dropped.
pub(super) struct RawKeys {
    stopped: Arc<AtomicBool>,
}

/// What a user does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Key(KeyCode),
    /// Ctrl-C, or the command is being stopped.
    Interrupted,
}

impl RawKeys {
    /// Takes the terminal. Keys that were typed before are discarded.
    pub(super) fn take(stopped: Arc<AtomicBool>) -> io::Result<Self> {
        prompt_session::discard_input();
        terminal::enable_raw_mode()?;
        prompt_session::keep_output_processing();
        Ok(Self { stopped })
    }

    /// Waits for a key.
    pub(super) fn next(&self) -> io::Result<Pressed> {
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(Pressed::Interrupted);
            }
            if !event::poll(TICK)? {
                continue;
            }
            match event::read()? {
                Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => {}
                Event::Key(KeyEvent { code: KeyCode::Char('c'), modifiers, .. })
                    if modifiers.contains(KeyModifiers::CONTROL) =>
                {
                    return Ok(Pressed::Interrupted);
                }
                Event::Key(KeyEvent { code: KeyCode::Char('d'), modifiers, .. })
                    if modifiers.contains(KeyModifiers::CONTROL) =>
                {
                    return Ok(Pressed::Key(KeyCode::Esc));
                }
                Event::Key(KeyEvent { code, .. }) => return Ok(Pressed::Key(code)),
                _ => {}
            }
        }
    }
}

impl Drop for RawKeys {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _gone = terminal::disable_raw_mode();
    }
}

/// Runs work that reads keys, until it is done or the command is stopped. The terminal is restored in both cases.
pub(super) async fn read_keys<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&RawKeys) -> io::Result<T> + Send + 'static,
) -> Result<io::Result<T>, Report> {
    let stopped = Arc::new(AtomicBool::new(false));
    let keys = Arc::clone(&stopped);
    let mut reading = tokio::task::spawn_blocking(move || work(&RawKeys::take(keys)?));
    let failed = |error: tokio::task::JoinError| io::Error::other(error.to_string());
    match app.stop.or(&mut reading).await {
        Ok(done) => Ok(done.map_err(failed).and_then(|done| done)),
        Err(report) => {
            stopped.store(true, Ordering::Relaxed);
            drop(reading.await);
            Err(report)
        }
    }
}

/// Asks a question that one key answers: `y`, `n`, Escape for no, or Enter for yes. Ctrl-C stops the command.
pub(crate) async fn ask_yes_or_no(question: &str, app: &App) -> Result<bool, Report> {
    ask(question, Enter::Yes, app).await
}

/// As [`ask_yes_or_no`], with Enter for no.
pub(crate) async fn confirm(question: &str, app: &App) -> Result<bool, Report> {
    ask(question, Enter::No, app).await
}

/// What Enter means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enter {
    Yes,
    No,
}

async fn ask(question: &str, enter: Enter, app: &App) -> Result<bool, Report> {
    let question = question.to_owned();
    let asked = read_keys(app, move |keys| {
        let mut stderr = io::stderr();
        write!(stderr, "{question} ")?;
        stderr.flush()?;
        let answer = loop {
            match keys.next()? {
                Pressed::Key(KeyCode::Char('y' | 'Y')) => break true,
                Pressed::Key(KeyCode::Enter) => break enter == Enter::Yes,
                Pressed::Key(KeyCode::Esc | KeyCode::Char('n' | 'N')) => break false,
                Pressed::Key(_) => {}
                Pressed::Interrupted => {
                    writeln!(stderr)?;
                    return Ok(None);
                }
            }
        };
        writeln!(stderr, "{}", if answer { "yes" } else { "no" })?;
        Ok(Some(answer))
    });
    match asked.await?.ok().flatten() {
        Some(answer) => Ok(answer),
        None => {
            // Raw mode has suppressed the signal.
            if prompt_session::interrupt() {
                app.stop.or(tokio::time::sleep(TICK)).await?;
            }
            Ok(false)
        }
    }
}
