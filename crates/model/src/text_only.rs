//! A model whose entry says that it takes no images (`models.<name>.images`). Its vendor refuses a request with one, and then
//! every later request of that conversation: a text stands in for each image.

use std::sync::Arc;

use futures_util::{StreamExt, stream::BoxStream};
use toolway_config::Vendor;

use crate::{Message, Model, ModelError, ModelEvent, ModelRequest, Part, ResultPart};

/// A model that takes no images. Surfaces refuse to attach one; of a result or a message before, a text is sent instead.
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

    fn stream(&self, mut request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        request.messages.iter_mut().for_each(leave_out_images);
        let events = self.0.stream(request);
        events
            .map(|event| match event {
                Ok(ModelEvent::Sent(mut sent)) => {
                    sent.encoding.is_text_only = true;
                    Ok(ModelEvent::Sent(sent))
                }
                other => other,
            })
            .boxed()
    }
}

/// Puts a text in the place of each image of a message.
pub(crate) fn leave_out_images(message: &mut Message) {
    for part in &mut message.parts {
        match part {
            Part::Image(image) => *part = Part::Text { text: image.left_out() },
            Part::ToolResult(result) => {
                for part in &mut result.content {
                    if let ResultPart::Image(image) = part {
                        *part = ResultPart::Text { text: image.left_out() };
                    }
                }
            }
            Part::Text { .. } | Part::Audio(_) | Part::Reasoning { .. } | Part::ToolCall(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::TextOnly;
    use crate::{
        Encoding, Image, Message, Model, ModelEvent, ModelRequest, Part, ResultPart, ScriptedModel, ToolResult,
    };

    #[tokio::test]
    async fn no_request_has_an_image_and_it_is_rebuilt_the_same() {
        let image = || Image { mime_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() };
        let content = vec![ResultPart::Text { text: "see".to_owned() }, ResultPart::Image(image())];
        let result = ToolResult { call_id: "1".to_owned(), name: "draw".to_owned(), content, is_error: false };
        let mut attached = Message::user("look");
        attached.parts.push(Part::Image(image()));
        let messages = vec![attached, Message::tool_results([result])];
        let request = ModelRequest { messages, ..ModelRequest::default() };
        let script = ScriptedModel::parse("m", r#"{"turns": [{"text": "Yes."}]}"#).unwrap();
        let model = TextOnly(std::sync::Arc::new(script));
        let first = model.stream(request.clone()).next().await;
        let Some(Ok(ModelEvent::Sent(sent))) = first else { panic!("{first:?}") };
        let body = String::from_utf8(sent.body.to_vec()).unwrap();
        assert!(!body.contains("iVBOR") && body.matches("takes no `image/png`").count() == 2, "{body}");
        // A replay knows the messages as they are stored.
        assert_eq!(sent.encoding.body(&request), sent.body);
        let stored = serde_json::to_string(&sent.encoding).unwrap();
        assert_eq!(serde_json::from_str::<Encoding>(&stored).unwrap().body(&request), sent.body);
    }
}
