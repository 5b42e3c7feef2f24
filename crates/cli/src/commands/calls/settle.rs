//! `toolway calls settle`: what a person found out about a call whose outcome is unknown.

use serde_json::{Value, json};
use toolway_host::{
    record::{Delivery, Finding, Settlement, kind},
    time, visible,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    clock::Clock,
    output::{Format, Output},
    report::Report,
};

#[derive(Debug, clap::Args)]
pub(super) struct SettleArgs {
    /// Id of the call, the beginning or end of it, or `last`
    id: String,

    #[command(flatten)]
    finding: FindingArgs,

    /// How you know
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct FindingArgs {
    /// The server acted on it
    #[arg(long)]
    happened: bool,

    /// The server did not act on it
    #[arg(long)]
    did_not_happen: bool,
}

pub(super) async fn run(args: &SettleArgs, app: &App, output: &mut Output) -> Result<(), Report> {
    let call = super::find(app, &args.id).await?.row;
    if call.outcome != Some(Delivery::Unknown) {
        let outcome = call.outcome.map_or("not known yet: the call is open", Delivery::as_str);
        let message = format!("the outcome of call {} is {outcome}; only `unknown` can be settled", call.id);
        return Err(Report::usage("not_unknown", message));
    }
    let finding = if args.finding.happened { Finding::Happened } else { Finding::DidNotHappen };
    let settlement = Settlement { call: call.id, at: time::now(), finding, note: args.note.clone() };
    app.record_changes()?.settle(settlement.clone()).await?;
    let details = json!({ "call": call.id.to_string(), "finding": finding.as_str(), "note": args.note });
    app.audit(kind::SETTLEMENT, call.server.as_deref(), Some(call.tool.as_deref().unwrap_or(&call.name)), &details);
    match output.format {
        Format::Human | Format::Raw => output.line("Settled."),
        Format::Json | Format::Ndjson => output.json(&Raw::of(&view(&settlement))),
    }
    Ok(())
}

/// A settlement as scripts see it.
pub(super) fn view(settlement: &Settlement) -> Value {
    let Settlement { call, at, finding, note } = settlement;
    json!({ "call": call.to_string(), "at": time::rfc3339(*at), "finding": finding.as_str(), "note": note })
}

/// A settlement for the user.
pub(super) fn words(settlement: &Settlement, clock: Clock) -> String {
    let note = settlement.note.as_deref().map(|note| format!(": {}", visible::one_line(note))).unwrap_or_default();
    format!("{} ({}){note}", settlement.finding.as_str(), clock.full(settlement.at))
}
