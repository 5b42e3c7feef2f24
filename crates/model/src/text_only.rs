//! A model whose entry says that it takes no images (`models.<name>.images`).

use std::sync::Arc;

use futures_util::stream::BoxStream;
use toolway_config::Vendor;

use crate::{Model, ModelError, ModelEvent, ModelRequest};

/// A model that takes no images. Surfaces refuse to attach one.
#[derive(Clone, Debug)]
pub struct TextOnly(pub Arc<dyn Model>);

impl Model for TextOnly {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn vendor(&self) -> Vendor {
        self.0.vendor()
    }

    fn context_window(&self) -> Option<u64> {
        self.0.context_window()
    }

    fn takes_images(&self) -> bool {
        false
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        self.0.stream(request)
    }
}
