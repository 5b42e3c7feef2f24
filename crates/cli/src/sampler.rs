//! The models that answer sampling requests of servers, and which servers are told that they can ask.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use toolway_agent::{
    ConversationModels, ModelCandidate, ModelPriority, ModelSampler, OF_CONVERSATION, OpenedModel, SamplingModels,
};
use toolway_config::{Config, PolicyMode, SamplingLevels, SamplingPermission, SamplingSettings, ServerName, Settings};
use toolway_host::sampling::{
    NoSampler, Permission, PermissionInput, Presence, Sampler, SamplingOffer, SavedAnswer, permission,
};
use toolway_model::Model;

use crate::{app::App, models::ListedModel};

/// A server and what its entry says of sampling.
pub(crate) struct AskingServer<'a> {
    pub(crate) name: &'a ServerName,
    pub(crate) sampling: Option<&'a SamplingSettings>,
}

/// Where the servers of a command are called.
#[derive(Clone, Copy)]
pub(crate) struct AskedFrom<'a> {
    /// Model with which the conversation begins, if there is one.
    pub(crate) conversation: Option<&'a Arc<dyn Model>>,
    /// Models with which conversations go on.
    pub(crate) models: &'a ConversationModels,
    pub(crate) presence: Presence,
    pub(crate) mode: Option<PolicyMode>,
}

/// The models of a configuration. Each is opened once: a script goes on where it stopped.
struct ConfiguredModels {
    app: App,
    settings: Settings,
    conversation: Option<Arc<dyn Model>>,
    /// Servers that are told that they can ask; `None`: all.
    told: Option<BTreeSet<ServerName>>,
    // Nothing awaits under this lock.
    opened: Mutex<BTreeMap<Option<String>, Arc<dyn Model>>>,
}

impl App {
    /// The sampler of a conversation with all configured servers.
    pub(crate) fn conversation_sampler(&self, config: &Config, from: AskedFrom<'_>) -> Arc<dyn Sampler> {
        let asking = config.servers.values();
        let asking = asking.map(|entry| AskingServer { name: &entry.name, sampling: Some(&entry.sampling) });
        self.sampler(&config.settings, asking, from)
    }

    /// The sampler of `serve`, for calls of its clients and of its console: the host knows at each request which servers may
    /// ask. Without a configured model none may.
    pub(crate) fn gateway_sampler(&self, settings: &Settings, models: &ConversationModels) -> Arc<dyn Sampler> {
        if !self.knows_model(settings) {
            return Arc::new(NoSampler);
        }
        Arc::new(ModelSampler::new(Arc::new(self.configured_models(settings, None, None)), models.clone()))
    }

    fn configured_models(
        &self,
        settings: &Settings,
        conversation: Option<&Arc<dyn Model>>,
        told: Option<BTreeSet<ServerName>>,
    ) -> ConfiguredModels {
        let conversation = conversation.cloned();
        let settings = settings.clone();
        ConfiguredModels { app: self.detached(), settings, conversation, told, opened: Mutex::default() }
    }

    /// The sampler of these servers. A model that is not needed is not looked for; where no model is available, no server is
    /// told that it can ask.
    pub(crate) fn sampler<'a>(
        &self,
        settings: &Settings,
        servers: impl Iterator<Item = AskingServer<'a>>,
        from: AskedFrom<'_>,
    ) -> Arc<dyn Sampler> {
        let is_told = |server: &AskingServer<'_>| {
            let levels = SamplingLevels {
                top: settings.sampling.value.clone(),
                server: server.sampling.cloned().unwrap_or_default(),
                client: SamplingSettings::default(),
            };
            let AskedFrom { presence, mode, .. } = from;
            // An answer that was saved may allow more: then the server is not told, and nothing else changes.
            let saved = SavedAnswer::Nothing;
            let decided =
                permission::decide(PermissionInput { levels: &levels, mode, presence, exceeded: None, saved });
            !matches!(decided, Permission::Refused(_)) && levels.permission() != SamplingPermission::Never
        };
        let told: BTreeSet<_> = servers.filter(is_told).map(|server| server.name.clone()).collect();
        if told.is_empty() {
            return Arc::new(NoSampler);
        }
        let models = self.configured_models(settings, from.conversation, Some(told));
        if let Err(error) = models.open(settings.sampling.value.model.as_deref()) {
            tracing::warn!(%error, "no model for sampling");
            return Arc::new(NoSampler);
        }
        Arc::new(ModelSampler::new(Arc::new(models), from.models.clone()))
    }
}

fn priority(configured: toolway_config::ModelPriority) -> ModelPriority {
    let part = |thousandths: u16| f64::from(thousandths) / 1000.0;
    ModelPriority {
        cost: part(configured.cost),
        speed: part(configured.speed),
        intelligence: part(configured.intelligence),
    }
}

impl SamplingModels for ConfiguredModels {
    fn offer(&self, server: &ServerName) -> SamplingOffer {
        let is_told = self.told.as_ref().is_none_or(|told| told.contains(server));
        if is_told { SamplingOffer::WithTools } else { SamplingOffer::Nothing }
    }

    fn candidates(&self) -> Vec<ModelCandidate> {
        let candidate = |ListedModel { name, config, .. }| ModelCandidate {
            name,
            vendor_name: config.model,
            priority: config.priority.map(priority),
        };
        self.app.known_models(&self.settings).into_iter().map(candidate).collect()
    }

    fn open(&self, name: Option<&str>) -> Result<OpenedModel, String> {
        if let (None, Some(model)) = (name, &self.conversation) {
            return Ok(OpenedModel { model: Arc::clone(model), reason: OF_CONVERSATION });
        }
        let reason = "the default model";
        let mut opened = self.opened.lock();
        let key = name.map(str::to_owned);
        if let Some(model) = opened.get(&key) {
            return Ok(OpenedModel { model: Arc::clone(model), reason });
        }
        let model = self.app.model(name, &self.settings).map_err(|report| report.message)?;
        opened.insert(key, Arc::clone(&model));
        Ok(OpenedModel { model, reason })
    }
}
