//! Keys that are typed while the model works are not echoed between its words. Ctrl-C still is a signal, and the keys
//! are there when the next line is read.

/// Turns the echo off; on again when it is dropped.
#[derive(Debug)]
pub(super) struct EchoOff {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl EchoOff {
    #[cfg(unix)]
    pub(super) fn new() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(before) = &before {
            let mut modes = before.clone();
            modes.local_modes.remove(LocalModes::ECHO);
            // Without a terminal there is no echo.
            let _none = tcsetattr(std::io::stdin(), OptionalActions::Now, &modes);
        }
        Self { before }
    }

    #[cfg(not(unix))]
    pub(super) fn new() -> Self {
        Self {}
    }
}

#[cfg(unix)]
impl Drop for EchoOff {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(before) = &self.before {
            // The terminal may be gone.
            let _gone = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
