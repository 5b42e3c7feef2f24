//! What a file or a blob really is, by its first bytes: a name or a MIME type is only a claim.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// An image or a sound that models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Image(&'static str),
    Sound(&'static str),
}

/// Bytes that are enough to recognise a medium, and to see that something is text.
pub(crate) const HEAD: usize = 64;

/// Signatures at the beginning of files.
const SIGNATURES: [(&[u8], Medium); 8] = [
    (b"\x89PNG\r\n\x1a\n", Medium::Image("image/png")),
    (b"\xff\xd8\xff", Medium::Image("image/jpeg")),
    (b"GIF87a", Medium::Image("image/gif")),
    (b"GIF89a", Medium::Image("image/gif")),
    (b"ID3", Medium::Sound("audio/mpeg")),
    (b"\xff\xfb", Medium::Sound("audio/mpeg")),
    (b"OggS", Medium::Sound("audio/ogg")),
    (b"fLaC", Medium::Sound("audio/flac")),
];

impl Medium {
    /// Recognises a medium by its beginning.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if let (Some(b"RIFF"), Some(form)) = (bytes.get(..4), bytes.get(8..12)) {
            return match form {
                b"WEBP" => Some(Self::Image("image/webp")),
                b"WAVE" => Some(Self::Sound("audio/wav")),
                _ => None,
            };
        }
        SIGNATURES.iter().find(|(signature, _)| bytes.starts_with(signature)).map(|(_, medium)| *medium)
    }
}

/// How servers write base64: with and without padding, and in either alphabet.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const USUAL: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const FOR_URLS: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The bytes of a text in base64, also with line breaks; `None` if it is something else.
pub(crate) fn decoded(data: &str) -> Option<Vec<u8>> {
    let text: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    USUAL.decode(&text).or_else(|_| FOR_URLS.decode(&text)).ok()
}

/// Whether bytes that are said to be an image or a sound are plainly text, such as a page with an error.
pub(crate) fn is_plainly_text(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let is_printed = |byte: &u8| (0x20..0x7f).contains(byte) || matches!(byte, b'\t' | b'\n' | b'\r');
    4 <= head.len() && Medium::of(head).is_none() && !head.starts_with(b"RIFF") && head.iter().all(is_printed)
}

#[cfg(test)]
mod tests {
    use super::{Medium, decoded, is_plainly_text};

    #[test]
    fn base64_is_read_as_servers_write_it() {
        for text in ["+/8A", "-_8A", "+/8A\n", " +/\r\n8A "] {
            assert_eq!(decoded(text).unwrap(), [0xfb, 0xff, 0], "{text:?}");
        }
        assert_eq!([decoded("AA=="), decoded("AA"), decoded("")], [Some(vec![0]), Some(vec![0]), Some(vec![])]);
        for text in ["!", "AA=A", "data:image/png;base64,AA==", "é"] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }

    #[test]
    fn media_are_recognised_by_their_bytes() {
        assert_eq!(Medium::of(b"\x89PNG\r\n\x1a\n...."), Some(Medium::Image("image/png")));
        assert_eq!(Medium::of(b"RIFF\x10\0\0\0WEBPVP8 "), Some(Medium::Image("image/webp")));
        assert_eq!(Medium::of(b"RIFF\x10\0\0\0WAVEfmt "), Some(Medium::Sound("audio/wav")));
        assert_eq!(Medium::of(b"RIFF\x10\0\0\0AVI "), None);
        assert_eq!(Medium::of(b"<!DOCTYPE html>"), None);
        assert_eq!(Medium::of(b""), None);
    }

    #[test]
    fn a_page_is_no_image_whatever_it_is_called() {
        assert!(is_plainly_text(b"<!DOCTYPE html><html><body>404</body></html>"));
        assert!(is_plainly_text(b"\xef\xbb\xbf<svg xmlns="));
        for medium in [&b"\x89PNG\r\n\x1a\n"[..], b"GIF89a", b"RIFF", b"\0\0\0", b"", b"ab"] {
            assert!(!is_plainly_text(medium), "{medium:?}");
        }
    }
}
