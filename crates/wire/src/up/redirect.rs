//! Where a redirect leads, if it may be followed: an address within the origin. What else speaks against it is for whoever
//! sent the request to say.

use http::header;
use url::Url;

use super::client::{HttpResponse, display_url};
use crate::error::WireError;

/// Where a redirect leads. It is named without what people put into addresses.
///
/// CVE-2026-64684: headers were replayed to another origin. CVE-2026-27826: a redirect led to an address that the check of the
/// first one would have refused.
pub(super) fn target(url: &Url, reply: &HttpResponse) -> Result<Url, WireError> {
    let location = reply.headers().get(header::LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if location.is_empty() {
        return Err(WireError::Redirect { location: "nowhere".to_owned(), reason: "no address given" });
    }
    let Ok(target) = url.join(location) else {
        return Err(WireError::Redirect { location: "elsewhere".to_owned(), reason: "not an address" });
    };
    if target.origin() == url.origin() { Ok(target) } else { Err(refused(&target, "another origin")) }
}

/// It is not followed.
pub(super) fn refused(target: &Url, reason: &'static str) -> WireError {
    WireError::Redirect { location: display_url(target), reason }
}
