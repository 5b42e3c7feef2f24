//! `toolway models`: the models that `run` can use.

use clap::Subcommand;
use futures_util::StreamExt;
use serde_json::{Value, json};
use toolway_model::{Message, ModelEvent, ModelRequest};
use toolway_wire::json::Raw;

use super::run::model_report;
use crate::{
    app::App,
    effect::Effect,
    exit_code::ExitCode,
    models::{ListedModel, UNCONFIGURED},
    output::{Format, Output},
    report::Report,
};

/// List, choose and test models
///
/// Models come from `models` in the configuration, from ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY, and from an
/// Ollama that runs on its usual port or at OLLAMA_HOST. Where no model of a vendor is configured, the newest one of the
/// vendor's list is used. Without a command, lists the models.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    command: Option<ModelsCommand>,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// List the models
    List,
    /// Choose the vendor's model of a name, and store it in your configuration file
    Set {
        /// Name of a configured model, or `anthropic`, `openai` or `gemini`
        name: String,
        /// The vendor's name of the model
        model: String,
    },
    /// Send a short request to a model and print its answer
    Test {
        /// Name of the model
        name: String,
    },
}

impl ModelsArgs {
    /// The model of a vendor decides what is sent to it.
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            Some(ModelsCommand::Set { .. }) => Effect::Widens,
            None | Some(ModelsCommand::List | ModelsCommand::Test { .. }) => Effect::Ordinary,
        }
    }
}

pub(crate) async fn run(args: &ModelsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let settings = app.load()?.config.settings;
    match &args.command {
        None | Some(ModelsCommand::List) => Ok(list(&app.listed_models(&settings), output)),
        Some(ModelsCommand::Set { name, model }) => {
            let configured = settings.models.value.get(name).map(|config| config.vendor);
            let vendor = configured.or_else(|| UNCONFIGURED.into_iter().find(|vendor| vendor.as_str() == name));
            let Some(vendor) = vendor else {
                let report = Report::usage("model", format!("unknown model `{name}`"));
                return Err(report.hint("use `anthropic`, `openai` or `gemini`, or add it to `models` in toolway.json"));
            };
            app.store_model(name, vendor, model, output)?;
            Ok(ExitCode::Ok)
        }
        Some(ModelsCommand::Test { name }) => {
            let model = app.proposed_model(Some(name), &settings, output).await?;
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
                [model.name.clone(), vendor, model.shown_model().to_owned(), model.origin.clone()]
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
