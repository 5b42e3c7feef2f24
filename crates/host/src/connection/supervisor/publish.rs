//! What a supervisor shows everybody: the state of its connection as plain data, without anything secret.

use std::{sync::Arc, time::SystemTime};

use toolway_config::server::{Standing, Start, Transport};
use toolway_wire::up::Peer;

use super::{Doing, Supervisor, Surroundings};
use crate::{
    catalog::Listing,
    connection::{
        dial::DialError,
        live::Live,
        state::{Counts, LastError, NotConnected, Phase, Profile, ServerStatus, Stopped, TransportKind},
        wanted::{WantedServer, Way},
    },
    event::HostEvent,
    record::redact,
    whose_move::WhoseMove,
};

/// Letters of a session's id that are shown.
const SESSION_LETTERS: usize = 8;

impl Supervisor {
    pub(super) fn enter(&mut self, phase: Phase) {
        (self.status.phase, self.status.since) = (phase, SystemTime::now());
        self.publish();
    }

    /// Shows everybody how things are.
    pub(super) fn publish(&mut self) {
        let peer = match &self.doing {
            Doing::Serving(attached) => Some((self.generation, attached.peer.clone())),
            _ => None,
        };
        self.status.process = peer.as_ref().and_then(|_| self.connection.shared().pulse.process());
        let status = Arc::new(self.status.clone());
        let live = Live {
            status: Arc::clone(&status),
            peer,
            dials: self.dials,
            listed: self.listed,
            listing: self.listing.clone(),
            redactor: self.redactor.clone(),
            account: self.account.clone(),
        };
        self.connection.shared().live.send_replace(Arc::new(live));
        self.room.events.tell(|| HostEvent::Server(status));
    }

    /// What the peer and the entry say of the server.
    pub(super) fn describe(&mut self) {
        let WantedServer { label, description, source, way, .. } = &*self.wanted;
        self.status.label.clone_from(label);
        self.status.description.clone_from(description);
        self.status.source.clone_from(source);
        (self.status.transport, self.status.target) = shown(way);
        if let Doing::Serving(attached) = &self.doing {
            self.status.profile = Some(Profile::of(&attached.peer));
        }
    }

    pub(super) fn tell_profile(&mut self) {
        self.describe();
        self.publish();
    }

    pub(super) fn note(&mut self, message: &str, code: &'static str, whose_move: WhoseMove) {
        let message = self.redactor.text(message);
        self.status.last_error = Some(LastError { at: SystemTime::now(), message, code, whose_move, error: None });
    }

    /// As [`Self::note`], of a dial.
    pub(super) fn note_dial(&mut self, error: &DialError) {
        self.note(&error.to_string(), error.code(), error.whose_move());
        if let Some(last) = &mut self.status.last_error {
            last.error = NotConnected::after(error, &self.redactor).error;
        }
    }
}

impl Profile {
    pub(super) fn of(peer: &Peer) -> Self {
        let profile = peer.profile();
        let beginning = |id: String| id.chars().take(SESSION_LETTERS).chain(['…']).collect();
        Self {
            era: profile.revision.era(),
            revision: profile.revision,
            session: peer.session().map(beginning),
            info: profile.info.clone(),
            instructions: profile.instructions.clone(),
            capabilities: profile.capabilities.clone(),
        }
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

pub(super) fn first_status(wanted: &WantedServer, room: &Surroundings) -> ServerStatus {
    let (transport, target) = shown(&wanted.way);
    ServerStatus {
        server: wanted.name.clone(),
        label: wanted.label.clone(),
        description: wanted.description.clone(),
        source: wanted.source.clone(),
        transport,
        target,
        phase: first_phase(wanted),
        since: SystemTime::now(),
        profile: None,
        counts: None,
        last_error: None,
        process: None,
        custody: (transport == TransportKind::Stdio).then(|| room.dialler.custodian.custody()),
        losses: 0,
        ended: None,
        stderr: Vec::new(),
        lines: Vec::new(),
    }
}

/// What its task will begin with.
fn first_phase(wanted: &WantedServer) -> Phase {
    match (wanted.standing, wanted.start) {
        (Standing::Disabled, _) => Phase::Disabled,
        (Standing::Enabled, Start::WhenNeeded) => Phase::Stopped(Stopped::NotNeededYet),
        (Standing::Enabled, Start::AtOnce) => Phase::Connecting { attempt: 1 },
    }
}

/// How a server is reached, as it may be shown: references are not followed, and of an address nothing is shown that
/// people put keys into.
fn shown(way: &Way) -> (TransportKind, String) {
    match way {
        Way::Address(address) => (address.kind(), address.shown()),
        Way::InProcess(_) => (TransportKind::InProcess, "this process".to_owned()),
        Way::Custom(transport) => (TransportKind::Custom, transport.target()),
        Way::Configured(server) => match &server.transport {
            Transport::Process(process) => (TransportKind::Stdio, process.command.written().expose().to_owned()),
            Transport::Http(http) => (TransportKind::Http, redact::uri(http.url.written().expose())),
        },
    }
}
