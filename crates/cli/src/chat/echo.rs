//! Keys that are typed while the model works are not echoed between its words. Ctrl-C still is a signal, and keys that are
//! not read are there when the next line is read.

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

/// Makes the terminal give each key at once, without an echo; as before when it is dropped. Unlike raw mode, Ctrl-C is a
/// signal, and the output of others is as always.
#[derive(Debug)]
pub(super) struct KeyByKey {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl KeyByKey {
    /// `None` without a terminal.
    #[cfg(unix)]
    pub(super) fn new() -> Option<Self> {
        use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        // Enter is a carriage return, to be told from a line feed that is pasted.
        modes.input_modes.remove(InputModes::ICRNL);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &modes).ok()?;
        Some(Self { before })
    }

    /// Keys are read after the turn.
    #[cfg(not(unix))]
    pub(super) fn new() -> Option<Self> {
        None
    }
}

#[cfg(unix)]
impl Drop for KeyByKey {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // The terminal may be gone.
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
