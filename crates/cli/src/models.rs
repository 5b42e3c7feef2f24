//! Models of the configuration, of the environment and of a running Ollama, by name. Where no model of a vendor is
//! configured, the vendor is asked for its list (`model_proposal.rs` stores the choice).

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use toolway_config::{
    Environment, ModelConfig, Secret, Settings, Vendor,
    interpolate::{Lookup, Template},
    server::PlainHttp,
};
use toolway_model::{
    HttpModel, HttpModelOptions, Model, ModelError, ModelErrorKind, Ollama, ScriptedModel, TextOnly, vendor,
};
use toolway_wire::{
    limit::Limits,
    up::{client::HttpClient, connector::HttpOptions},
};

use crate::{app::App, commands::run::model_report, exit_code::ExitCode, report::Report, suggestion};

/// First pause before a request is repeated.
const PAUSE: Duration = Duration::from_secs(1);
/// `--model scripted:FILE` needs no configuration.
const SCRIPT_PREFIX: &str = "scripted:";
/// The vendors that need no configuration where their key is in the environment.
pub(crate) const UNCONFIGURED: [Vendor; 3] = [Vendor::Anthropic, Vendor::Openai, Vendor::Gemini];

/// Name of the model of a running Ollama.
const OLLAMA: &str = "ollama";

/// Whether `--model` takes this name without an entry of the configuration and without a key: a script, or Ollama.
pub(crate) fn needs_no_entry(name: &str) -> bool {
    name.starts_with(SCRIPT_PREFIX) || name == OLLAMA
}

/// A model that can be used.
pub(crate) struct ListedModel {
    /// Name for `--model`.
    pub(crate) name: String,
    pub(crate) config: ModelConfig,
    /// Where it comes from: a file and line, or a variable.
    pub(crate) origin: String,
}

/// A model to use.
pub(crate) struct ChosenModel {
    pub(crate) model: Arc<dyn Model>,
    /// The vendor's model, if none is configured and it was chosen from the vendor's list.
    pub(crate) newest: Option<NewestModel>,
}

/// The newest model of a vendor's list.
pub(crate) struct NewestModel {
    /// Name for `--model`.
    pub(crate) name: String,
    pub(crate) vendor: Vendor,
    /// The vendor's name of the model.
    pub(crate) model: String,
}

impl ListedModel {
    /// The vendor's name of the model, as it is listed.
    pub(crate) fn shown_model(&self) -> &str {
        self.config.model.as_deref().unwrap_or("(newest)")
    }
}

impl App {
    /// Configured models, then those of keys in the environment, then the first one of a running Ollama.
    pub(crate) fn listed_models(&self, settings: &Settings) -> Vec<ListedModel> {
        self.known_models(settings).into_iter().chain(self.ollama()).collect()
    }

    /// Whether a model is configured, or the key of a vendor is set.
    pub(crate) fn knows_model(&self, settings: &Settings) -> bool {
        !self.known_models(settings).is_empty()
    }

    /// The models that need no request to find them.
    pub(crate) fn known_models(&self, settings: &Settings) -> Vec<ListedModel> {
        let origin = settings.models.origin.to_string();
        let configured = settings.models.value.iter().map(|(name, config)| ListedModel {
            name: name.clone(),
            config: config.clone(),
            origin: origin.clone(),
        });
        let of_environment = UNCONFIGURED.iter().filter_map(|vendor| {
            let variable = vendor::entry(*vendor).key_variable?;
            variable_of(&self.environment, variable)?;
            if settings.models.value.contains_key(vendor.as_str()) {
                return None;
            }
            let config = unconfigured(*vendor, None, None);
            Some(ListedModel { name: vendor.as_str().to_owned(), config, origin: variable.to_owned() })
        });
        configured.chain(of_environment).collect()
    }

    /// The first model of Ollama at `OLLAMA_HOST` or its usual port. Waits at most half a second.
    fn ollama(&self) -> Option<ListedModel> {
        let host = variable_of(&self.environment, "OLLAMA_HOST");
        let client = HttpClient::new(HttpOptions { guard: None, ..self.http_options() }, &Limits::default());
        let found = complete(Ollama::find(host.as_ref().map(Secret::expose), &client))??;
        let origin = format!("Ollama at {}", found.base_url.origin().ascii_serialization());
        let base_url = Template::literal(found.base_url.as_str());
        let config = unconfigured(Vendor::OpenaiChat, found.models.into_iter().next(), Some(base_url));
        Some(ListedModel { name: OLLAMA.to_owned(), config, origin })
    }

    /// As [`Self::choose_model`], without a user to ask about a model of the vendor's list.
    pub(crate) fn model(&self, wanted: Option<&str>, settings: &Settings) -> Result<Arc<dyn Model>, Report> {
        let chosen = self.choose_model(wanted, settings)?;
        if let Some(NewestModel { name, model, .. }) = chosen.newest {
            tracing::info!(model = %name, newest = %model, "using the newest model of the vendor's list");
        }
        Ok(chosen.model)
    }

    /// The model of `--model`, else `defaultModel`, else the first one.
    pub(crate) fn choose_model(&self, wanted: Option<&str>, settings: &Settings) -> Result<ChosenModel, Report> {
        let wanted = wanted.or(settings.default_model.value.as_deref());
        if let Some(file) = wanted.and_then(|wanted| wanted.strip_prefix(SCRIPT_PREFIX)) {
            return Ok(ChosenModel { model: scripted(file, Path::new(file), None)?, newest: None });
        }
        let models = self.known_models(settings);
        let names: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
        let found = match wanted {
            Some(wanted) => models.into_iter().find(|model| model.name == wanted),
            None => models.into_iter().next(),
        };
        let found = found.or_else(|| if wanted.is_none_or(|wanted| wanted == OLLAMA) { self.ollama() } else { None });
        let Some(found) = found else {
            if let Some(wanted) = wanted.filter(|_| !names.is_empty()) {
                let near = suggestion::did_you_mean(wanted, names.iter().map(String::as_str));
                let report = Report::usage("model", format!("unknown model `{wanted}`{near}"));
                return Err(report.hint(format!("configured models: {}", names.join(", "))));
            }
            let message = match wanted {
                Some(wanted) => format!("unknown model `{wanted}`"),
                None => "no model is configured".to_owned(),
            };
            let hint = "add one to `models` in toolway.json, set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, start \
                        Ollama, or use --model scripted:FILE";
            return Err(Report::usage("model", message).hint(hint));
        };
        let chosen = self.build(&found.name, &found.config, settings)?;
        Ok(match found.config.images {
            true => chosen,
            false => ChosenModel { model: Arc::new(TextOnly(chosen.model)), ..chosen },
        })
    }

    fn build(&self, name: &str, config: &ModelConfig, settings: &Settings) -> Result<ChosenModel, Report> {
        if config.vendor == Vendor::Scripted {
            let path = config.model.as_deref().unwrap_or_default();
            let model = scripted(name, Path::new(path), config.context_window.map(u64::from))?;
            return Ok(ChosenModel { model, newest: None });
        }
        let invalid = |what: String| Report::usage("model", format!("model `{name}`: {what}"));
        let resolve = |template: &toolway_config::interpolate::Template| {
            let keychain = self.keychain(settings);
            let home = self.paths.home.clone().unwrap_or_default();
            let lookup = Lookup {
                environment: &self.environment,
                keychain: &*keychain,
                folder: self.paths.home.as_deref(),
                base: &home,
                server: name,
                file: &home,
                defined_by: toolway_config::server::DefinedBy::User,
            };
            template.expand(&lookup).map_err(|problem| invalid(format!("its entry {problem}")))
        };
        let base_url = match &config.base_url {
            Some(template) => resolve(template)?.expose().to_owned(),
            None => vendor::entry(config.vendor).base_url.unwrap_or_default().to_owned(),
        };
        config.check_base_url(&base_url).map_err(|expected| invalid(format!("its base URL must be {expected}")))?;
        let base_url = base_url.parse().map_err(|_| invalid(format!("`{base_url}` is not a URL")))?;
        let key = match &config.api_key {
            Some(template) => Some(resolve(template)?),
            None => vendor::entry(config.vendor).key_variable.and_then(|name| variable_of(&self.environment, name)),
        };
        let mut headers = HeaderMap::new();
        for (header, template) in &config.headers {
            let value = HeaderValue::from_str(resolve(template)?.expose());
            let header_name = HeaderName::from_bytes(header.as_bytes());
            let (Ok(header_name), Ok(value)) = (header_name, value) else {
                return Err(invalid(format!("header `{header}` is not valid in HTTP")));
            };
            headers.insert(header_name, value);
        }
        let mut options = HttpModelOptions {
            name: name.to_owned(),
            vendor: config.vendor,
            model: config.model.clone().unwrap_or_default(),
            base_url,
            key,
            headers,
            max_tokens: config.max_tokens.map(u64::from),
            context_window: config.context_window.map(u64::from),
            pause: PAUSE,
        };
        let client = || HttpClient::new(HttpOptions { guard: None, ..self.http_options() }, &Limits::default());
        let mut newest = None;
        if config.model.is_none() {
            options.model = newest_model(&HttpModel::new(options.clone(), client()), name)?;
            newest = Some(NewestModel { name: name.to_owned(), vendor: config.vendor, model: options.model.clone() });
        }
        Ok(ChosenModel { model: Arc::new(HttpModel::new(options, client())), newest })
    }
}

/// Asks the vendor for the newest model of its list.
fn newest_model(asked: &HttpModel, name: &str) -> Result<String, Report> {
    let found = complete(asked.newest_model()).unwrap_or_else(|| {
        let what = "its list of models cannot be asked for".to_owned();
        Err(ModelError::new(name, ModelErrorKind::InvalidAnswer(what)))
    });
    found.map_err(|error| {
        let report = model_report(&error);
        report.hint(format!("no model of the vendor is configured; choose one: toolway models set {name} MODEL"))
    })
}

/// The output of a future, run on a thread of its own, because the caller may be inside a runtime.
fn complete<T: Send>(future: impl Future<Output = T> + Send) -> Option<T> {
    let run = || -> Option<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        Some(runtime.block_on(future))
    };
    std::thread::scope(|scope| scope.spawn(run).join()).ok()?
}

fn unconfigured(vendor: Vendor, model: Option<String>, base_url: Option<Template>) -> ModelConfig {
    let headers = Vec::new();
    let plain = PlainHttp::default();
    ModelConfig {
        vendor,
        model,
        base_url,
        plain,
        api_key: None,
        headers,
        max_tokens: None,
        context_window: None,
        images: true,
        priority: None,
        price: None,
    }
}

fn scripted(name: &str, path: &Path, window: Option<u64>) -> Result<Arc<dyn Model>, Report> {
    let model = ScriptedModel::read(name, path);
    let model = model.map_err(|error| Report::new(ExitCode::Usage, "model", error.to_string()))?;
    Ok(Arc::new(model.with_context_window(window)))
}

fn variable_of(environment: &Environment, name: &str) -> Option<Secret> {
    let value = environment.get(std::ffi::OsStr::new(name))?.to_str()?;
    (!value.is_empty()).then(|| Secret::new(value))
}
