//! The tokens of a sampling request before it is sent, so that a quota is not passed by what a server writes into it. High
//! rather than low: what was really used replaces the estimate when the model has answered.

use toolway_model::{Audio, Message, ModelRequest, Part, ResultPart};

/// Bytes of text or JSON per token. English has about four, Chinese and Japanese about three.
const BYTES_PER_TOKEN: usize = 3;
/// Tokens of an image; vendors scale larger ones down to about this.
const IMAGE: u64 = 1_600;
/// Bytes of audio in base64 per token: compressed speech has about 160, and vendors count 10 to 32 tokens for a second.
const AUDIO_BYTES_PER_TOKEN: usize = 160;
/// Tokens around each message and tool.
const FRAME: u64 = 8;

/// The tokens of a request, estimated.
pub(super) fn input_tokens(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        FRAME + text(tool.name.len()) + text(tool.description.len()) + text(tool.input_schema.to_string().len())
    });
    let messages = request.messages.iter().map(message);
    text(request.system.len()) + tools.chain(messages).sum::<u64>()
}

fn message(message: &Message) -> u64 {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text: words } | Part::Reasoning { text: words } => text(words.len()),
        Part::Image(_) => IMAGE,
        Part::Audio(sound) => audio(sound),
        Part::ToolCall(call) => text(call.name.len() + call.arguments.as_bytes().len()),
        Part::ToolResult(result) => {
            let content = result.content.iter().map(|part| match part {
                ResultPart::Text { text: words } => text(words.len()),
                ResultPart::Image(_) => IMAGE,
                ResultPart::Audio(sound) => audio(sound),
            });
            text(result.name.len()) + content.sum::<u64>()
        }
    });
    FRAME + parts.sum::<u64>()
}

fn audio(sound: &Audio) -> u64 {
    sound.data.len().div_ceil(AUDIO_BYTES_PER_TOKEN) as u64
}

/// Tokens of so many bytes of text.
fn text(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests {
    use toolway_model::{Image, Role};

    use super::*;

    #[test]
    fn text_images_and_tools_count() {
        let words = "a".repeat(3_000);
        let mut request = ModelRequest { messages: vec![Message::user(words)], ..ModelRequest::default() };
        assert_eq!(input_tokens(&request), 1_008);
        request.system = "b".repeat(300);
        assert_eq!(input_tokens(&request), 1_108);
        let image = Part::Image(Image { mime_type: "image/png".to_owned(), data: "A".repeat(1_000_000) });
        request.messages.push(Message { role: Role::User, parts: vec![image], raw: None, task: None, attached: None });
        assert_eq!(input_tokens(&request), 1_108 + 8 + 1_600);
    }
}
