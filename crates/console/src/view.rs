//! JSON shapes of the API. Every page reads these and nothing else.

pub(crate) mod call;
pub(crate) mod content;
pub(crate) mod conversation;
pub(crate) mod icon;
pub(crate) mod inbox;
pub(crate) mod proposal;
pub(crate) mod resource;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod task;
pub(crate) mod tested;
pub(crate) mod tool;

use std::time::SystemTime;

use toolway_host::time;

/// RFC 3339 in UTC.
pub(crate) fn moment(at: SystemTime) -> String {
    time::rfc3339_of(at)
}

/// Bytes of a short text of a server.
const MAX_TEXT: usize = 4 * 1024;

/// A short text of a server within its bound.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// A data URL of an image that a page may show. SVG is not among them: it can contain scripts.
pub(crate) fn image(mime_type: &str, data: &str) -> Option<String> {
    data_url(&IMAGE_TYPES, mime_type, data)
}

/// A data URL of a sound that a page may play.
pub(crate) fn audio(mime_type: &str, data: &str) -> Option<String> {
    data_url(&AUDIO_TYPES, mime_type, data)
}

fn data_url(types: &[&str], mime_type: &str, data: &str) -> Option<String> {
    let is_base64 = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    let is_shown = types.contains(&mime_type) && is_base64 && !data.is_empty();
    is_shown.then(|| format!("data:{mime_type};base64,{data}"))
}

/// The first of these images, as many as fit into `most` bytes.
pub(crate) fn within(most: usize, images: impl Iterator<Item = String>) -> Vec<String> {
    let mut left = most;
    let fits = |image: &String| {
        let rest = left.checked_sub(image.len());
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    images.take_while(fits).collect()
}

/// Types of images that pages show.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];
/// Types of sounds that pages play.
const AUDIO_TYPES: [&str; 7] =
    ["audio/mpeg", "audio/wav", "audio/x-wav", "audio/ogg", "audio/webm", "audio/flac", "audio/mp4"];

#[cfg(test)]
mod tests {
    use super::{audio, image};

    #[test]
    fn only_plain_images_and_sounds_are_shown() {
        assert_eq!(audio("audio/wav", "AA==").unwrap(), "data:audio/wav;base64,AA==");
        for (kind, data) in [("audio/wav\"", "AA=="), ("text/html", "AA=="), ("audio/wav", "<b>")] {
            assert!(audio(kind, data).is_none(), "{kind} {data}");
        }
        assert_eq!(image("image/png", "AA==").unwrap(), "data:image/png;base64,AA==");
        for (kind, data) in
            [("image/svg+xml", "AA=="), ("text/html", "AA=="), ("image/png", "\"><script>"), ("image/png", "")]
        {
            assert!(image(kind, data).is_none(), "{kind} {data}");
        }
    }
}
