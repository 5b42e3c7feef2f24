//! The system prompt: the user's own text, and the instructions of servers, bounded and marked as theirs.

use toolway_host::Host;

/// Characters of one server's instructions.
const INSTRUCTIONS: usize = 4_000;
/// Characters of all instructions.
const ALL_INSTRUCTIONS: usize = 16_000;

/// Builds the system prompt.
pub(crate) fn prompt(host: &Host, own: &str, is_visible: impl Fn(&str) -> bool) -> String {
    let mut prompt = own.to_owned();
    let mut left = ALL_INSTRUCTIONS;
    for status in host.servers() {
        let instructions = status.profile.as_ref().and_then(|profile| profile.instructions.as_ref());
        let Some(text) = instructions.filter(|_| is_visible(status.server.as_str())) else { continue };
        let text: String = text.chars().take(INSTRUCTIONS.min(left)).collect();
        if text.trim().is_empty() {
            continue;
        }
        left -= text.chars().count();
        prompt.push_str(&format!(
            "\n\nInstructions of the tool server `{}` (written by the server):\n{text}",
            status.server
        ));
    }
    prompt.trim().to_owned()
}
