//! Publishes the state of a connection as plain data, without secrets.

use std::{sync::Arc, time::SystemTime};

use serde_json::json;
use toolway_config::{
    Secret,
    server::{Standing, Start, Transport},
};
use toolway_wire::up::Peer;

use super::{Activity, HostContext, Supervisor};
use crate::{
    audience::OperatorText,
    catalog::Listing,
    connection::{
        ConnectionCounts,
        dial::DialError,
        handle::ConnectionSnapshot,
        state::{Counts, ErrorId, LastError, NotConnected, Phase, Profile, ServerStatus, StopReason, TransportKind},
        wanted::{WantedServer, Way},
    },
    event::StateEvent,
    record::{AuditNote, kind, redact},
    whose_move::WhoseMove,
};

/// State in audit notes of an established connection that ended by itself.
pub(super) const LOST: &str = "lost";
/// Characters of a session id that are shown.
const SESSION_CHARS: usize = 8;

impl Supervisor {
    pub(super) fn enter(&mut self, phase: Phase) {
        (self.status.phase, self.status.since) = (phase, SystemTime::now());
        self.publish();
        // Neither an attempt nor its repetition is an event; its result is.
        let word = self.status.phase.word();
        if word != self.noted && !matches!(self.status.phase, Phase::Connecting { .. }) {
            self.note(word);
        }
    }

    /// Notes a state of the connection in the audit log.
    pub(super) fn note(&mut self, state: &'static str) {
        self.noted = state;
        let failed = !matches!(self.status.phase, Phase::Ready | Phase::Stopped(_) | Phase::Disabled);
        let error = self.status.last_error.as_ref().filter(|_| failed || state == LOST);
        let details = json!({
            "state": state,
            "transport": self.status.transport.word(),
            "error": error.map(|last| last.message.as_str()),
        });
        self.context.note(AuditNote::of_server(kind::CONNECTION, &self.wanted.name, details));
    }

    /// Publishes the current status and peer.
    pub(super) fn publish(&mut self) {
        let peer = match &self.activity {
            Activity::Serving(attached) => Some((self.generation, attached.peer.clone())),
            _ => None,
        };
        self.status.process = peer.as_ref().and_then(|_| self.connection.shared().monitor.process());
        let status = Arc::new(self.status.clone());
        let live = ConnectionSnapshot {
            status: Arc::clone(&status),
            peer,
            dials: self.dials,
            listed: self.listed,
            listing: self.listing.clone(),
            redactor: self.redactor.clone(),
            account: self.account.clone(),
        };
        self.connection.shared().live.send_replace(Arc::new(live));
        self.context.events.send_state(|| StateEvent::Server(status));
    }

    /// Updates the status from the entry and the peer.
    pub(super) fn describe(&mut self) {
        let WantedServer { label, description, source, way, .. } = &*self.wanted;
        self.status.label.clone_from(label);
        self.status.description.clone_from(description);
        self.status.source.clone_from(source);
        (self.status.transport, self.status.target) = displayed(way);
        if let Activity::Serving(attached) = &self.activity {
            self.status.profile = Some(Profile::of(&attached.peer));
        }
    }

    pub(super) fn publish_profile(&mut self) {
        self.describe();
        self.publish();
    }

    /// Keeps an error for the status and logs it. `event`: what happened, in the log.
    pub(super) fn record_error(
        &mut self,
        event: &'static str,
        message: &str,
        code: &'static str,
        whose_move: WhoseMove,
    ) {
        let (id, message) = (ErrorId::new(), self.operator_text(message));
        tracing::warn!(server = %self.wanted.name, error_id = %id, code, error = message.as_str(), "{event}");
        self.status.last_error = Some(LastError { id, at: SystemTime::now(), message, code, whose_move, error: None });
    }

    /// A text with the secrets of the server redacted.
    pub(super) fn operator_text(&self, text: &str) -> OperatorText {
        OperatorText::new(self.redactor.text(text))
    }

    /// As [`Self::record_error`], for a failed dial.
    pub(super) fn record_dial_error(&mut self, error: &DialError) {
        self.record_error("cannot connect", &error.for_operator(), error.code(), error.whose_move());
        if let Some(last) = &mut self.status.last_error {
            last.error = NotConnected::after(error, &self.redactor).error;
        }
    }
}

impl Profile {
    pub(super) fn of(peer: &Peer) -> Self {
        let profile = peer.profile();
        let mut own = Self {
            era: profile.revision.era(),
            revision: profile.revision,
            session: None,
            session_id: None,
            info: profile.info.clone(),
            instructions: profile.instructions.clone(),
            capabilities: profile.capabilities.clone(),
        };
        own.set_session(peer);
        own
    }

    /// Takes the session that the peer uses now: a peer replaces an expired one by itself.
    pub(in crate::connection) fn set_session(&mut self, peer: &Peer) {
        let id = peer.session();
        self.session = id.as_ref().map(|id| id.chars().take(SESSION_CHARS).chain(['…']).collect());
        self.session_id = id.map(Secret::new);
    }
}

impl Counts {
    pub(super) fn of(listing: &Listing) -> Self {
        Self {
            tools: listing.tools.len(),
            resources: listing.resources.len(),
            templates: listing.templates.len(),
            prompts: listing.prompts.len(),
            set_aside: listing.set_aside.len(),
        }
    }
}

pub(super) fn first_status(wanted: &WantedServer, context: &HostContext) -> ServerStatus {
    let (transport, target) = displayed(&wanted.way);
    ServerStatus {
        server: wanted.name.clone(),
        label: wanted.label.clone(),
        description: wanted.description.clone(),
        source: wanted.source.clone(),
        transport,
        target,
        phase: first_phase(wanted),
        since: SystemTime::now(),
        last_connected: None,
        profile: None,
        counts: None,
        last_error: None,
        process: None,
        cleanup: (transport == TransportKind::Stdio).then(|| context.dialer.keeper.cleanup()),
        losses: 0,
        ended: None,
        stderr: Vec::new(),
        stray_output: None,
        caller_connections: Vec::new(),
        connections: ConnectionCounts::default(),
    }
}

/// The phase in which the supervisor begins.
fn first_phase(wanted: &WantedServer) -> Phase {
    match (wanted.standing, wanted.start) {
        (Standing::Disabled, _) => Phase::Disabled,
        (Standing::Enabled, Start::WhenNeeded) => Phase::Stopped(StopReason::NotNeededYet),
        (Standing::Enabled, Start::AtOnce) => Phase::Connecting { attempt: 1 },
    }
}

/// How a server is reached, as it may be displayed: references are not resolved, and parts of a URL that may contain keys
/// are left out.
fn displayed(way: &Way) -> (TransportKind, String) {
    match way {
        Way::Address(address) => (address.kind(), address.displayed()),
        Way::InProcess(_) => (TransportKind::InProcess, "this process".to_owned()),
        Way::Custom(transport) => (TransportKind::Custom, transport.target()),
        Way::Configured(server) => match &server.transport {
            Transport::Process(process) => (TransportKind::Stdio, process.command.written().expose().to_owned()),
            Transport::Http(http) => (TransportKind::Http, redact::uri(http.url.written().expose())),
        },
    }
}
