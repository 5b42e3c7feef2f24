//! Redirect targets: only within the same origin. The sender of the request checks method and number of redirects.

use http::header;
use url::Url;

use super::client::{HttpResponse, display_url};
use crate::error::WireError;

/// Returns the target of a redirect if it is on the same origin. Errors show the URL without query and user info.
///
/// CVE-2026-64684: headers were replayed to another origin. CVE-2026-27826: a redirect led to an address that the
/// address guard would have refused.
pub(super) fn target(url: &Url, response: &HttpResponse) -> Result<Url, WireError> {
    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if location.is_empty() {
        return Err(WireError::Redirect {
            location: "(no location)".to_owned(),
            reason: "the `Location` header is missing or unreadable",
        });
    }
    let Ok(target) = url.join(location) else {
        return Err(WireError::Redirect {
            location: "(invalid URL)".to_owned(),
            reason: "the `Location` header is not a valid URL",
        });
    };
    if target.origin() == url.origin() { Ok(target) } else { Err(refused(&target, "it leads to another origin")) }
}

/// The error for a redirect that is not followed.
pub(super) fn refused(target: &Url, reason: &'static str) -> WireError {
    WireError::Redirect { location: display_url(target), reason }
}
