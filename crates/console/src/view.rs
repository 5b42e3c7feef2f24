//! JSON shapes of the API. Every page reads these and nothing else.

pub(crate) mod call;
pub(crate) mod conversation;
pub(crate) mod inbox;
pub(crate) mod proposal;
pub(crate) mod server;
pub(crate) mod task;

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
    let is_image = IMAGE_TYPES.contains(&mime_type);
    let is_base64 = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    (is_image && is_base64 && !data.is_empty()).then(|| format!("data:{mime_type};base64,{data}"))
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

#[cfg(test)]
mod tests {
    use super::image;

    #[test]
    fn only_plain_images_are_shown() {
        assert_eq!(image("image/png", "AA==").unwrap(), "data:image/png;base64,AA==");
        for (kind, data) in
            [("image/svg+xml", "AA=="), ("text/html", "AA=="), ("image/png", "\"><script>"), ("image/png", "")]
        {
            assert!(image(kind, data).is_none(), "{kind} {data}");
        }
    }
}
