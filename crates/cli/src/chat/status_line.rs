//! The line at the bottom that says what is going on. The next output replaces it.

use std::time::Instant;

use toolway_agent::CallProgress;

/// A call that is running.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) id: String,
    /// Server, tool and arguments.
    pub(super) label: String,
    began: Instant,
    progress: Option<String>,
}

impl Running {
    pub(super) fn new(id: String, label: String) -> Self {
        Self { id, label, began: Instant::now(), progress: None }
    }

    pub(super) fn progress(&mut self, event: &CallProgress) {
        let share = match event.total {
            Some(total) if total > 0.0 => format!("{:.0} %", 100.0 * event.progress / total),
            _ => format!("{}", event.progress),
        };
        self.progress = Some(match &event.message {
            Some(message) => format!("{share} {message}"),
            None => share,
        });
    }
}

/// What the line says.
pub(super) fn text(running: &[Running], waiting_since: Instant, what: &str) -> String {
    let beat = ['|', '/', '-', '\\'];
    let turn = usize::try_from(waiting_since.elapsed().as_millis() / 120).unwrap_or_default();
    let spinner = beat[turn % beat.len()];
    let seconds = |since: Instant| match since.elapsed().as_secs() {
        0 => String::new(),
        seconds => format!(" {seconds} s"),
    };
    match running {
        [] => format!("{spinner} {what}{}", seconds(waiting_since)),
        [call] => {
            let progress = call.progress.as_ref().map(|progress| format!(" {progress}")).unwrap_or_default();
            format!("{spinner}{}{progress} {}", seconds(call.began), call.label)
        }
        calls => {
            let names: Vec<&str> = calls.iter().map(|call| call.label.as_str()).collect();
            format!("{spinner}{} {} calls: {}", seconds(calls[0].began), calls.len(), names.join("; "))
        }
    }
}
