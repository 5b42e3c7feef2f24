//! Searches output and files for secrets.

use std::{fs, io, path::Path};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use url::form_urlencoded;

/// Secrets in all their encodings.
#[derive(Clone, Debug)]
pub struct SecretScan {
    spellings: Vec<String>,
}

/// Shorter texts could match by chance.
const MIN_LENGTH: usize = 16;

impl SecretScan {
    /// A scan for these secrets: plain, URL-encoded, in base64, and the signature of a JWT alone.
    pub fn of(secrets: &[String]) -> Self {
        let spellings = secrets.iter().flat_map(|secret| {
            let last = secret.rsplit('.').next().unwrap_or_default().to_owned();
            let encoded: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
            [secret.clone(), encoded, inner(&STANDARD.encode(secret)), inner(&URL_SAFE_NO_PAD.encode(secret)), last]
        });
        Self { spellings: spellings.filter(|spelling| MIN_LENGTH <= spelling.len()).collect() }
    }

    /// Number of encodings.
    pub fn size(&self) -> usize {
        self.spellings.len()
    }

    /// Encodings that occur in these bytes.
    pub fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        let text = String::from_utf8_lossy(bytes);
        self.spellings.iter().filter(|spelling| text.contains(spelling.as_str())).map(String::as_str).collect()
    }

    /// Encodings that occur in the files below a directory, each with its file.
    pub fn found_below(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                found.extend(self.found_below(&path)?);
            } else {
                let bytes = fs::read(&path)?;
                found.extend(self.found_in(&bytes).iter().map(|spelling| format!("{}: {spelling}", path.display())));
            }
        }
        Ok(found)
    }
}

/// Removes the ends, which depend on the surrounding bytes.
fn inner(encoded: &str) -> String {
    let end = encoded.trim_end_matches('=').len();
    encoded.get(..end.saturating_sub(2)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::SecretScan;

    #[test]
    fn secret_is_found_in_each_encoding() {
        let secret = "refresh/with=odd&letters-0123456789".to_owned();
        let scan = SecretScan::of(std::slice::from_ref(&secret));
        for text in [
            format!("x{secret}y"),
            "token=refresh%2Fwith%3Dodd%26letters-0123456789&x=y".to_owned(),
            format!("Basic {}", base64::Engine::encode(&super::STANDARD, format!("{secret}:more"))),
        ] {
            assert!(!scan.found_in(text.as_bytes()).is_empty(), "{text}");
        }
        assert!(scan.found_in(b"refresh/with=odd").is_empty());
        assert_eq!(SecretScan::of(&["short".to_owned()]).size(), 0);
    }
}
