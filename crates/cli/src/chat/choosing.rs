//! Slash commands that open a result, or a list to choose from with the arrow keys.

use toolway_config::PolicyMode;
use toolway_wire::json::Raw;

use super::{Chat, commands::about, stored};
use crate::{
    clock::Clock,
    output::{clean, content},
    record_id,
    terminal::Picker,
};

/// Conversations to choose from.
const MOST_CONVERSATIONS: usize = 200;

/// The modes in the order of how much they ask.
const MODES: [PolicyMode; 3] = [PolicyMode::Ask, PolicyMode::Writes, PolicyMode::Allow];

impl Chat<'_> {
    /// Shows the whole result of a call, as the model got it.
    pub(super) fn show_result(&self, number: Option<usize>) {
        let Some(result) = self.screen.result(number) else {
            let which = number.map_or_else(|| "No result yet.".to_owned(), |number| format!("No result [{number}]."));
            return self.screen.line(&which);
        };
        self.screen.line(&clean::flat(&result.label));
        let value = Raw::parse(result.text.clone()).ok();
        let text = value.map_or_else(|| clean::exact(&result.text), |value| clean::json(&content::indented(&value)));
        self.screen.line(&text);
        if let Some(id) = result.call_id.filter(|_| !self.app.reach.no_store) {
            self.screen.note(&format!("toolway calls show {}", record_id::short(&id)));
        }
    }

    pub(super) async fn pick_model(&mut self) {
        let models = self.app.listed_models(&self.config.settings);
        let current = self.agent.model().name().to_owned();
        if models.is_empty() {
            return self.screen.line(&format!("Model {current}; no other is configured."));
        }
        let row = |name: &str, vendor: &str, model: &str| format!("{name} ({vendor}, {model})");
        let rows = models.iter().map(|model| row(&model.name, model.config.vendor.as_str(), model.shown_model()));
        let rows: Vec<String> = rows.collect();
        let selected = models.iter().position(|model| model.name == current).unwrap_or_default();
        let picker = Picker { title: format!("Model {current}"), rows, selected };
        match self.choose(picker).await.and_then(|index| models.get(index)) {
            Some(model) => {
                let name = model.name.clone();
                self.change_model(Some(&name));
            }
            None => self.screen.line(&format!("Model {current}.")),
        }
    }

    pub(super) async fn pick_mode(&mut self) {
        let current = self.agent.mode().or(self.config.settings.policy.mode.value).unwrap_or(PolicyMode::Writes);
        let selected = MODES.iter().position(|mode| *mode == current).unwrap_or_default();
        let rows = MODES.map(|mode| about(mode).to_owned()).to_vec();
        let picker = Picker { title: "When calls of the model are asked about".to_owned(), rows, selected };
        let chosen = self.choose(picker).await.and_then(|index| MODES.get(index).copied());
        self.change_mode(chosen);
    }

    pub(super) async fn pick_conversation(&mut self) {
        let stored = match stored::list(self.app, MOST_CONVERSATIONS).await {
            Ok(stored) if stored.is_empty() => return self.screen.line("No conversations are stored."),
            Ok(stored) => stored,
            Err(report) => return self.screen.line(&report.to_human()),
        };
        let clock = Clock::local();
        let rows = stored.iter().map(|head| {
            format!(
                "{}  {:<16}  {}",
                record_id::short(&head.id),
                clock.brief(head.updated_at),
                clean::flat(&head.title)
            )
        });
        let picker = Picker { title: "Continue a conversation".to_owned(), rows: rows.collect(), selected: 0 };
        if let Some(head) = self.choose(picker).await.and_then(|index| stored.get(index)) {
            self.resume(&head.id.to_string()).await;
        }
    }

    /// The row that the user chooses.
    pub(super) async fn choose(&self, picker: Picker) -> Option<usize> {
        match picker.pick(self.app).await {
            Ok(chosen) => chosen,
            Err(report) => {
                self.screen.line(&report.to_human());
                None
            }
        }
    }
}
