//! A model that was chosen from a vendor's list: proposed and stored at a terminal, elsewhere used and named on stderr.

use std::sync::Arc;

use serde_json::json;
use toolway_config::{
    Origin, Settings, Vendor,
    edit::{Change, plan_model},
};
use toolway_host::record::kind;
use toolway_model::Model;

use crate::{
    app::App,
    commands::servers::apply_edit::{lock, own_file},
    models::{ChosenModel, NewestModel},
    output::{self, Output},
    report::Report,
    terminal,
};

impl App {
    /// The model of `--model`, else `defaultModel`, else the first one. The user decides about one that is not configured.
    pub(crate) async fn proposed_model(
        &self,
        wanted: Option<&str>,
        settings: &Settings,
        output: &mut Output,
    ) -> Result<Arc<dyn Model>, Report> {
        let ChosenModel { model, newest } = self.choose_model(wanted, settings)?;
        if let Some(newest) = newest {
            self.propose(&newest, settings, output).await?;
        }
        Ok(model)
    }

    async fn propose(&self, newest: &NewestModel, settings: &Settings, output: &mut Output) -> Result<(), Report> {
        let NewestModel { name, vendor, model } = newest;
        let command = format!("toolway models set {name}");
        let own = own_file(&self.load()?)?;
        // An entry without a model that another file defines cannot be completed in ours.
        let is_own = matches!(&settings.models.origin, Origin::File(place) if place.file == own);
        let is_elsewhere = settings.models.value.contains_key(name) && !is_own;
        if !output::is_interactive() || is_elsewhere {
            output.notice(&format!("toolway: model `{name}`: using `{model}`, the newest of the vendor's list"));
            output.notice(&format!("hint: to keep it: {command} {model}"));
            return Ok(());
        }
        let question = format!(
            "No model of `{name}` is configured. The newest of the vendor's list is `{model}`.\n\
             Use it, and store it in {}? [Y/n]",
            own.display()
        );
        if !terminal::ask_yes_or_no(&question, self).await? {
            let report = Report::usage("model", format!("model `{name}`: no model of the vendor is chosen"));
            return Err(report.hint(format!("choose one: {command} MODEL")));
        }
        self.store_model(name, *vendor, model, output)
    }

    /// Writes the vendor's model of an entry to the user's file.
    pub(crate) fn store_model(
        &self,
        name: &str,
        vendor: Vendor,
        model: &str,
        output: &mut Output,
    ) -> Result<(), Report> {
        let _lock = lock(self)?;
        match plan_model(&own_file(&self.load()?)?, name, vendor, model)? {
            Change::Lines { lines, advice, .. } => {
                output.notice(&format!("YAML files are not edited. {advice}"));
                output.notice(lines.trim_end());
            }
            change @ Change::Text { .. } => {
                change.write()?;
                let details = json!({ "change": "set model", "name": name, "model": model });
                self.audit(kind::CONFIGURATION, None, None, &details);
                output.notice(&format!("toolway: model `{name}` is `{model}`"));
            }
        }
        Ok(())
    }
}
