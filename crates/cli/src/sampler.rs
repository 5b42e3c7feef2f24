//! The models that answer sampling requests of servers, as the configuration allows.

use std::{collections::BTreeMap, sync::Arc};

use toolway_agent::{Attended, ModelSampler, ServerSampling};
use toolway_config::{Config, SamplingPermission, SamplingSettings, ServerName, Settings};
use toolway_host::sampling::{NoSampler, Sampler};
use toolway_model::Model;

use crate::app::App;

/// A server and what its entry says of sampling.
pub(crate) struct AskingServer<'a> {
    pub(crate) name: &'a ServerName,
    pub(crate) sampling: Option<&'a SamplingSettings>,
}

impl App {
    /// The sampler of a conversation with all configured servers.
    pub(crate) fn conversation_sampler(
        &self,
        config: &Config,
        model: &Arc<dyn Model>,
        attended: Attended,
    ) -> Arc<dyn Sampler> {
        let asking = config.servers.values();
        let asking = asking.map(|entry| AskingServer { name: &entry.name, sampling: Some(&entry.sampling) });
        self.sampler(&config.settings, asking, Some(model), attended)
    }

    /// The sampler of these servers. `conversation` is the model of the conversation, if there is one. A model that is not
    /// needed is not looked for; a server whose model is unavailable is not told that it can ask.
    pub(crate) fn sampler<'a>(
        &self,
        settings: &Settings,
        servers: impl Iterator<Item = AskingServer<'a>>,
        conversation: Option<&Arc<dyn Model>>,
        attended: Attended,
    ) -> Arc<dyn Sampler> {
        let mut asking = BTreeMap::new();
        for AskingServer { name, sampling } in servers {
            let all = SamplingSettings::combined([&settings.sampling.value].into_iter().chain(sampling));
            let permission = all.permission();
            if permission == SamplingPermission::Never {
                continue;
            }
            let (model, reason) = match (&all.model, conversation) {
                (Some(named), _) => (self.model(Some(named), settings), format!("model `{named}` of `sampling.model`")),
                (None, Some(model)) => (Ok(Arc::clone(model)), "the model of the conversation".to_owned()),
                (None, None) => (self.model(None, settings), "the default model".to_owned()),
            };
            match model {
                Ok(model) => {
                    let server = ServerSampling { permission, max_tokens: all.max_tokens, model, reason };
                    asking.insert(name.clone(), server);
                }
                Err(report) => tracing::warn!(server = name.as_str(), error = %report.message, "no model for sampling"),
            }
        }
        if asking.is_empty() { Arc::new(NoSampler) } else { Arc::new(ModelSampler::new(asking, attended)) }
    }
}
