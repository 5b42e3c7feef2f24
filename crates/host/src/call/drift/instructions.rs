//! The instructions of a trusted server, compared with what was seen first. Changed ones are given to no model until a person
//! has approved the difference with a call of the server, or policy lets models pass.

use serde_json::{Map, json};
use toolway_config::{DriftEffect, ServerName, Trust};
use toolway_wire::seal::fingerprint;

use super::{DriftKind, UNREADABLE, difference, save};
use crate::{
    call::Caller,
    connection::Connection,
    host::{Host, Inner},
    policy::{
        Surface,
        baseline::{Baseline, SeenItem},
    },
    record::{AuditNote, kind},
};

/// The instructions of a trusted server, as policy decides about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerInstructions {
    /// They are what was seen first or accepted, or policy passes changes.
    Given(String),
    /// They have changed and are not accepted.
    Withheld {
        /// How they differ, one change on each line.
        difference: Vec<String>,
        /// What accepts them.
        remedy: String,
    },
}

/// How instructions compare with what was seen.
enum InstructionsSight {
    First,
    Same,
    Changed(Vec<String>),
}

impl Host {
    /// The instructions of a server for a model, compared with what was seen: the first ones become the baseline. `None` if
    /// the server is untrusted, not connected, or has none.
    pub async fn model_instructions(&self, server: &ServerName) -> Option<ServerInstructions> {
        let host = self.inner();
        let connection = host.connection(server)?;
        let now = now(&connection)?;
        let sight = compare(host, &now.baseline).await;
        if now.text.trim().is_empty() {
            // Those that come later are a change.
            if matches!(sight, InstructionsSight::First) {
                save(host, vec![now.baseline]).await;
            }
            return None;
        }
        let difference = match sight {
            InstructionsSight::Same => return Some(ServerInstructions::Given(now.text)),
            InstructionsSight::First => {
                save(host, vec![now.baseline]).await;
                return Some(ServerInstructions::Given(now.text));
            }
            InstructionsSight::Changed(difference) => difference,
        };
        if model_effect(host) == DriftEffect::Allow {
            host.context.note(AuditNote {
                kind: kind::DECISION,
                caller: None,
                server: Some(server.clone()),
                subject: None,
                call: None,
                details: json!({ "change": "instructions", "effect": "allow", "differences": difference }),
            });
            save(host, vec![now.baseline]).await;
            return Some(ServerInstructions::Given(now.text));
        }
        // The next call of a model asks, also about a tool that was compared before.
        host.compared.forget(server);
        Some(withheld(host, server, difference))
    }

    /// The instructions of a server that no model gets because they have changed. Keeps nothing.
    pub async fn withheld_instructions(&self, server: &ServerName) -> Option<ServerInstructions> {
        let host = self.inner();
        let now = now(&host.connection(server)?)?;
        if model_effect(host) == DriftEffect::Allow {
            return None;
        }
        match compare(host, &now.baseline).await {
            InstructionsSight::Changed(difference) if !now.text.trim().is_empty() => {
                Some(withheld(host, server, difference))
            }
            _ => None,
        }
    }
}

/// Changed instructions that a model gets when a person approves a call of the server.
pub(super) struct UnacceptedInstructions {
    pub(super) now: Baseline,
    /// How they differ, one change on each line.
    pub(super) difference: Vec<String>,
}

/// The changed instructions of a server, if policy asks about changes.
pub(super) async fn unaccepted(host: &Inner, connection: &Connection) -> Option<UnacceptedInstructions> {
    if model_effect(host) != DriftEffect::Ask {
        return None;
    }
    let now = now(connection).filter(|now| !now.text.trim().is_empty())?;
    match compare(host, &now.baseline).await {
        InstructionsSight::Changed(difference) => Some(UnacceptedInstructions { now: now.baseline, difference }),
        InstructionsSight::First | InstructionsSight::Same => None,
    }
}

/// Whether calls ask about instructions: those of a model, where a user can be asked.
pub(super) fn are_asked_about(caller: &Caller, surface: Surface) -> bool {
    matches!(caller, Caller::Agent(_)) && matches!(surface, Surface::Chat | Surface::Console)
}

fn model_effect(host: &Inner) -> DriftEffect {
    host.policy().drift_effect(&Caller::Agent("".into()), DriftKind::Changed)
}

/// Instructions as the server has them now; empty if it has none.
struct InstructionsNow {
    text: String,
    baseline: Baseline,
}

/// Those of a trusted server that is connected.
fn now(connection: &Connection) -> Option<InstructionsNow> {
    let wanted = connection.wanted();
    if wanted.trust < Trust::Read {
        return None;
    }
    let live = connection.live();
    let text = live.status.profile.as_ref()?.instructions.clone().unwrap_or_default();
    let digest = fingerprint([text.as_bytes()]);
    let members = Map::from_iter([("instructions".to_owned(), json!(text))]);
    let baseline = Baseline::new(&wanted.name, SeenItem::Instructions, digest, members);
    Some(InstructionsNow { text, baseline })
}

async fn compare(host: &Inner, now: &Baseline) -> InstructionsSight {
    match host.context.ports.baselines.find(&now.server, &now.item).await {
        Ok(None) => InstructionsSight::First,
        Ok(Some(before)) if before.digest == now.digest => InstructionsSight::Same,
        Ok(Some(_)) => InstructionsSight::Changed(difference(host, now).await),
        Err(error) => {
            tracing::error!(%error, server = %now.server, "instructions that were seen cannot be read");
            InstructionsSight::Changed(vec![UNREADABLE.to_owned()])
        }
    }
}

fn withheld(host: &Inner, server: &ServerName, difference: Vec<String>) -> ServerInstructions {
    let hides = host.policy().hides().changed;
    let first = if hides { "set `policy.changedTools` to `ask`, and then " } else { "" };
    let remedy = format!(
        "to accept them, {first}approve a call of a tool of `{server}` in `toolway chat`, which shows the difference"
    );
    ServerInstructions::Withheld { difference, remedy }
}
