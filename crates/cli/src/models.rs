//! Models of the configuration, of the environment and of a running Ollama, by name.

use std::{path::Path, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use toolway_config::{
    Environment, ModelConfig, Secret, Settings, Vendor,
    interpolate::{Lookup, Template},
};
use toolway_model::{HttpModel, HttpModelOptions, Model, Ollama, ScriptedModel, Wire};
use toolway_wire::{
    limit::Limits,
    up::{client::HttpClient, connector::HttpOptions},
};

use crate::{app::App, exit_code::ExitCode, report::Report, suggestion};

/// First pause before a request is repeated.
const PAUSE: Duration = Duration::from_secs(1);
/// `--model scripted:FILE` needs no configuration.
const SCRIPT_PREFIX: &str = "scripted:";
/// The vendors' models that are used without configuration, where their key is in the environment.
const DEFAULTS: &[(Vendor, &str)] =
    &[(Vendor::Anthropic, "claude-sonnet-4-5"), (Vendor::Openai, "gpt-5"), (Vendor::Gemini, "gemini-2.5-pro")];

/// Name of the model of a running Ollama.
const OLLAMA: &str = "ollama";

/// A model that can be used.
pub(crate) struct ListedModel {
    /// Name for `--model`.
    pub(crate) name: String,
    pub(crate) config: ModelConfig,
    /// Where it comes from: a file and line, or a variable.
    pub(crate) origin: String,
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
    fn known_models(&self, settings: &Settings) -> Vec<ListedModel> {
        let origin = settings.models.origin.to_string();
        let configured = settings.models.value.iter().map(|(name, config)| ListedModel {
            name: name.clone(),
            config: config.clone(),
            origin: origin.clone(),
        });
        let of_environment = DEFAULTS.iter().filter_map(|(vendor, model)| {
            let variable = vendor.key_variable()?;
            variable_of(&self.environment, variable)?;
            let config = unconfigured(*vendor, (*model).to_owned(), None);
            Some(ListedModel { name: vendor.as_str().to_owned(), config, origin: variable.to_owned() })
        });
        configured.chain(of_environment).collect()
    }

    /// The first model of Ollama at `OLLAMA_HOST` or its usual port. Waits at most half a second.
    fn ollama(&self) -> Option<ListedModel> {
        let host = variable_of(&self.environment, "OLLAMA_HOST");
        let client = HttpClient::new(HttpOptions { guard: None, ..self.http_options() }, &Limits::default());
        let find = || -> Option<Ollama> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(Ollama::find(host.as_ref().map(Secret::expose), &client))
        };
        // A thread of its own, because the caller may be inside a runtime.
        let found = std::thread::scope(|scope| scope.spawn(find).join()).ok()??;
        let origin = format!("Ollama at {}", found.base_url.origin().ascii_serialization());
        let base_url = Template::literal(found.base_url.as_str());
        let config = unconfigured(Vendor::OpenaiChat, found.models.into_iter().next()?, Some(base_url));
        Some(ListedModel { name: OLLAMA.to_owned(), config, origin })
    }

    /// The model of `--model`, else `defaultModel`, else the first one.
    pub(crate) fn model(&self, wanted: Option<&str>, settings: &Settings) -> Result<Arc<dyn Model>, Report> {
        let wanted = wanted.or(settings.default_model.value.as_deref());
        if let Some(file) = wanted.and_then(|wanted| wanted.strip_prefix(SCRIPT_PREFIX)) {
            return scripted(file, Path::new(file), None);
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
        self.build(&found.name, &found.config)
    }

    fn build(&self, name: &str, config: &ModelConfig) -> Result<Arc<dyn Model>, Report> {
        let wire = match config.vendor {
            Vendor::Scripted => return scripted(name, Path::new(&config.model), config.context_window.map(u64::from)),
            Vendor::Anthropic => Wire::Anthropic,
            Vendor::Openai => Wire::Openai,
            Vendor::OpenaiChat => Wire::OpenaiChat,
            Vendor::Gemini => Wire::Gemini,
        };
        let invalid = |what: String| Report::usage("model", format!("model `{name}`: {what}"));
        let resolve = |template: &toolway_config::interpolate::Template| {
            let keychain = self.keychain();
            let home = self.paths.home.clone().unwrap_or_default();
            let lookup = Lookup {
                environment: &self.environment,
                keychain: &*keychain,
                folder: self.paths.home.as_deref(),
                base: &home,
                server: name,
                file: &home,
            };
            template.expand(&lookup).map_err(|problem| invalid(format!("its entry {problem}")))
        };
        let base_url = match &config.base_url {
            Some(template) => resolve(template)?.expose().to_owned(),
            None => config.vendor.default_base_url().unwrap_or_default().to_owned(),
        };
        let base_url = base_url.parse().map_err(|_| invalid(format!("`{base_url}` is not a URL")))?;
        let key = match &config.api_key {
            Some(template) => Some(resolve(template)?),
            None => config.vendor.key_variable().and_then(|name| variable_of(&self.environment, name)),
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
        let options = HttpModelOptions {
            name: name.to_owned(),
            wire,
            model: config.model.clone(),
            base_url,
            key,
            headers,
            max_tokens: config.max_tokens.map(u64::from),
            context_window: config.context_window.map(u64::from),
            pause: PAUSE,
        };
        let client = HttpClient::new(HttpOptions { guard: None, ..self.http_options() }, &Limits::default());
        Ok(Arc::new(HttpModel::new(options, client)))
    }
}

fn unconfigured(vendor: Vendor, model: String, base_url: Option<Template>) -> ModelConfig {
    let headers = Vec::new();
    ModelConfig { vendor, model, base_url, api_key: None, headers, max_tokens: None, context_window: None }
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
