//! A chat without a model: what was looked for, how to add one, and a scripted one to try.

use std::sync::Arc;

use toolway_host::connection::{WantedServer, Way};
use toolway_model::{Model, ScriptedModel};
use toolway_sample::Sample;

use crate::{
    app::App,
    output::{self, Output},
    report::Report,
    terminal,
};

/// `--model` of the built-in script.
pub(crate) const DEMO: &str = "scripted:demo";
const SCRIPT: &str = include_str!("demo.json");

/// The built-in script.
pub(crate) fn demo() -> Result<Arc<dyn Model>, Report> {
    let model = ScriptedModel::parse("demo", SCRIPT);
    Ok(Arc::new(model.map_err(|error| Report::usage("model", format!("script `demo`: {error}")))?))
}

/// The server that the built-in script uses.
pub(crate) fn sample_server() -> Option<WantedServer> {
    let name = "sample".parse().ok()?;
    Some(WantedServer::new(name, Way::InProcess(Arc::new(Sample::new()))))
}

/// Says that there is no model, and offers the built-in script; returns whether the user wants it.
pub(crate) async fn offer_demo(app: &App, output: &mut Output) -> Result<bool, Report> {
    let own = || app.paths.config.as_ref().map(|folder| folder.join("toolway.json"));
    let file = app.reach.config.clone().or_else(own);
    let file = file.map_or_else(|| "toolway.json".to_owned(), |file| file.display().to_string());
    output.notice(&format!(
        "toolway: no model is configured\n\
         Looked for:\n\
         \u{20} `models` in {file}\n\
         \u{20} ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY in the environment\n\
         \u{20} Ollama at its usual port\n\
         To add a model, set one of these variables, or add to that file:\n\
         \u{20} \"models\": {{ \"local\": {{ \"vendor\": \"openai-chat\",\n\
         \u{20}   \"baseUrl\": \"http://127.0.0.1:11434/v1\" }} }}\n\
         `toolway models test NAME` checks it; docs/guide/models.md says more."
    ));
    if !output::is_interactive() {
        output.notice(&format!("hint: try it without a model: toolway chat --model {DEMO}"));
        return Ok(false);
    }
    terminal::ask_yes_or_no("Try the chat with a built-in script instead of a model? [Y/n]", app).await
}
