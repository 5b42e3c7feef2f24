//! `toolway models`: the models that `run` can use.

use clap::Subcommand;
use futures_util::StreamExt;
use serde_json::{Value, json};
use toolway_model::{Message, ModelEvent, ModelRequest};
use toolway_wire::json::Raw;

use super::run::model_report;
use crate::{
    app::App,
    exit_code::ExitCode,
    models::ListedModel,
    output::{Format, Output},
    report::Report,
};

/// List and test models
///
/// Models come from `models` in the configuration, from ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY, and from an
/// Ollama that runs on its usual port or at OLLAMA_HOST. Without a command, lists them.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    command: Option<ModelsCommand>,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// List the models
    List,
    /// Send a short request to a model and print its answer
    Test {
        /// Name of the model
        name: String,
    },
}

pub(crate) async fn run(args: &ModelsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let settings = app.load()?.config.settings;
    match &args.command {
        None | Some(ModelsCommand::List) => Ok(list(&app.listed_models(&settings), output)),
        Some(ModelsCommand::Test { name }) => {
            let model = app.model(Some(name), &settings)?;
            let messages = vec![Message::user("Answer with the word OK.")];
            let request = ModelRequest { messages, max_tokens: Some(1_024), ..ModelRequest::default() };
            let mut stream = model.stream(request);
            let mut text = String::new();
            while let Some(event) = app.stop.or(stream.next()).await? {
                if let ModelEvent::Text(piece) = event.map_err(|error| model_report(&error))? {
                    text.push_str(&piece);
                }
            }
            output.line(&format!("{name} answered: {}", text.trim()));
            Ok(ExitCode::Ok)
        }
    }
}

fn list(models: &[ListedModel], output: &mut Output) -> ExitCode {
    match output.format {
        Format::Human if models.is_empty() => {
            output.notice("toolway: no models; add one to `models` in toolway.json, set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or start \
                 Ollama");
        }
        Format::Human => {
            let row = |model: &ListedModel| {
                let vendor = model.config.vendor.as_str().to_owned();
                [model.name.clone(), vendor, model.config.model.clone(), model.origin.clone()]
            };
            let rows: Vec<_> = models.iter().map(row).collect();
            output.table(["NAME", "VENDOR", "MODEL", "FROM"], &rows);
        }
        Format::Raw | Format::Json | Format::Ndjson => {
            let view = |model: &ListedModel| -> Value {
                let (vendor, origin) = (model.config.vendor.as_str(), &model.origin);
                json!({ "name": model.name, "vendor": vendor, "model": model.config.model, "from": origin })
            };
            output.json(&Raw::of(&models.iter().map(view).collect::<Vec<_>>()));
        }
    }
    ExitCode::Ok
}
