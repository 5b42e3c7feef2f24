//! Asks a vendor for its models.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use serde_json::Value;
use toolway_wire::up::fetch::FetchLimits;

use super::{HttpModel, failure::Refusal};
use crate::{ModelError, ModelErrorKind, Vendor, newest};

/// The longest lists have a few hundred entries.
const LIMITS: FetchLimits = FetchLimits { bytes: 4 * 1024 * 1024, time: Duration::from_secs(15), redirects: 0 };

impl HttpModel {
    /// The newest model for general use in the vendor's list. The configured model is not used.
    pub async fn newest_model(&self) -> Result<String, ModelError> {
        let unusable = |what: &str| self.error(ModelErrorKind::InvalidAnswer(what.to_owned()));
        let path = match self.options.vendor {
            Vendor::Anthropic => "v1/models?limit=1000",
            Vendor::Openai | Vendor::OpenaiChat => "models",
            Vendor::Gemini => "v1beta/models?pageSize=1000",
            Vendor::Scripted => return Err(unusable("this model is not reached over HTTP")),
        };
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = self.url(path).as_str().parse().map_err(|_| unusable("the base URL is invalid"))?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        self.add_headers(request.headers_mut())?;
        let response = self.client.fetch(request, LIMITS).await.map_err(|error| self.unreachable(Some(&error)))?;
        if !response.status().is_success() {
            let refusal = Refusal::read(response.body());
            let vendor_message = refusal.message.as_deref().map(|text| self.clean(text));
            return Err(ModelError { vendor_message, ..self.error(refusal.kind(response.status())) });
        }
        let list: Value =
            serde_json::from_slice(response.body()).map_err(|_| unusable("its list of models is not JSON"))?;
        newest::of(self.options.vendor, &list).ok_or_else(|| unusable("its list has no model for general use"))
    }
}
