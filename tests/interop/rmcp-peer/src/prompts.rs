//! The one prompt, and completion of its argument and of the resource template.

use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, GetPromptRequestParams, GetPromptResult, Prompt,
    PromptArgument, PromptMessage, Reference, Role,
};
use serde_json::Value;

use crate::resources::TEMPLATE;

const GREET: &str = "greet";

/// Completion values for a name.
const NAMES: [&str; 4] = ["Ada", "Adele", "Alan", "Grace"];

pub(crate) fn list() -> Vec<Prompt> {
    let name = PromptArgument::new("name").with_description("Whom to greet.").with_required(true);
    vec![Prompt::new(GREET, Some("Greets a person."), Some(vec![name]))]
}

pub(crate) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    if request.name != GREET {
        return Err(ErrorData::invalid_params(format!("Unknown prompt: {}", request.name), None));
    }
    let name = request.arguments.as_ref().and_then(|arguments| arguments.get("name")).and_then(Value::as_str);
    let name = name.ok_or_else(|| ErrorData::invalid_params("Missing argument: name", None))?;
    let message = PromptMessage::new_text(Role::User, format!("Please greet {name}."));
    Ok(GetPromptResult::new(vec![message]).with_description("Greets a person."))
}

pub(crate) fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let known = match &request.r#ref {
        Reference::Prompt(prompt) => prompt.name == GREET,
        Reference::Resource(template) => template.uri == TEMPLATE,
        _ => false,
    };
    if !known || request.argument.name != "name" {
        return Err(ErrorData::invalid_params("Nothing to complete under this name", None));
    }
    let values = NAMES.into_iter().filter(|name| name.starts_with(&request.argument.value)).map(str::to_owned);
    let completion = CompletionInfo::with_all_values(values.collect());
    completion.map(CompleteResult::new).map_err(|error| ErrorData::internal_error(error, None))
}
