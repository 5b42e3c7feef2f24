//! A call that its server refuses until the user has done something at a URL.
//!
//! The user is asked about each URL. The call is sent again when the server has announced that all are completed, or when the
//! wait for that is over: it was refused, so that nothing is done twice.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::{Instant, timeout_at},
};
use toolway_wire::{exchange::RequiredUrl, message::RpcError, notice::Notice};

use super::{Relay, RelayStage, pipeline};
use crate::{
    call::{CallError, CallOutcome},
    connection::{InFlightCall, ListenerGuard, client_features::ClientFeatures},
    inbox::{ElicitationModes, opened_urls::wait_until, waiting},
    policy::Grant,
    record::Recording,
};

/// How often a call is sent again.
const MAX_ROUNDS: usize = 3;

/// A call that waits for its URLs.
pub(super) struct OpeningUrls {
    pub(super) work: BoxFuture<'static, UrlsEnd>,
    /// The grant of the call that was refused.
    pub(super) previous: Grant,
    pub(super) recording: Box<Recording>,
    pub(super) refusal: RpcError,
    /// Keeps the server running, so that its notification arrives.
    pub(super) _in_use: ListenerGuard,
}

/// How the wait for the URLs of a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrlsEnd {
    /// The call is sent again.
    SendAgain,
    /// The user did not accept: the refusal is the outcome.
    NotAccepted,
}

impl Relay {
    /// Whether the user is asked about URLs that the server requires: the caller handles them itself otherwise.
    pub(super) fn opens_urls(&self) -> bool {
        let caller = &self.request.caller;
        let is_declared = self.request.capabilities.as_ref().is_some_and(waiting::answers_forms);
        let is_asked_here = match caller.client() {
            Some(_) => !is_declared && self.host.context.waits_in_inbox(caller),
            None => self.host.context.ports.answerer.modes() == ElicitationModes::FormsAndUrls,
        };
        is_asked_here && self.url_rounds < MAX_ROUNDS
    }

    /// Asks the user about the URLs of a refusal. The slot and the connection are free in the meantime.
    pub(super) fn open_urls(
        &mut self,
        urls: Vec<RequiredUrl>,
        sent: InFlightCall,
        mut recording: Box<Recording>,
        refusal: RpcError,
    ) {
        self.url_rounds += 1;
        recording.count_server_request("elicitation/create");
        let features = self.features_of(&sent.connection);
        let waiting = self.person_wait.begin();
        // Before the user is asked, so that no announcement is missed.
        let notices = urls.iter().map(|_| sent.notices()).collect();
        let _in_use = sent.connection.keep_in_use();
        let work = Box::pin(async move {
            let end = all_opened(urls, features, notices).await;
            drop(waiting);
            end
        });
        let previous = sent.into_permit().into_grant();
        self.stage = RelayStage::OpeningUrls(Box::new(OpeningUrls { work, previous, recording, refusal, _in_use }));
    }

    /// Sends a call again whose URLs the user has opened, or ends it with its refusal.
    pub(super) fn continue_after_urls(&mut self, end: UrlsEnd) {
        let RelayStage::OpeningUrls(opening) = std::mem::replace(&mut self.stage, RelayStage::Ended) else { return };
        let OpeningUrls { previous, mut recording, refusal, .. } = *opening;
        match end {
            UrlsEnd::SendAgain => {
                let host = Arc::clone(&self.host);
                let request = Arc::clone(&self.request);
                self.stage = RelayStage::Preparing(pipeline::prepare(host, request, Some(previous), recording));
            }
            UrlsEnd::NotAccepted => {
                recording.mark_key_unused();
                self.end(recording, CallOutcome::Failed(CallError::Server(refusal)));
            }
        }
    }
}

/// Asks the user about all URLs, and waits until they are completed. `notices` has a receiver for each.
async fn all_opened(
    urls: Vec<RequiredUrl>,
    features: ClientFeatures,
    notices: Vec<broadcast::Receiver<Notice>>,
) -> UrlsEnd {
    let opened = urls.iter().zip(notices).map(|(url, notices)| is_opened(url, &features, notices));
    let is_accepted = join_all(opened).await.into_iter().all(|is_accepted| is_accepted);
    if is_accepted { UrlsEnd::SendAgain } else { UrlsEnd::NotAccepted }
}

/// Whether the user accepted, or the server announced the completion before.
async fn is_opened(url: &RequiredUrl, features: &ClientFeatures, mut notices: broadcast::Receiver<Notice>) -> bool {
    let asked = Instant::now();
    let answer = tokio::select! {
        biased;
        () = completed(&url.id, &mut notices) => return true,
        answer = features.ask_user(&url.request) => answer,
    };
    let Some(until) = answer.ok().and_then(|answer| wait_until(&answer, asked)) else { return false };
    // Some servers announce nothing; then the repeated call shows whether it is done.
    let _announced = timeout_at(until, completed(&url.id, &mut notices)).await;
    true
}

/// Resolves when the server announces that this elicitation is completed, or when its connection has ended.
async fn completed(id: &str, notices: &mut broadcast::Receiver<Notice>) {
    loop {
        match notices.recv().await {
            Ok(Notice::UrlCompleted { id: completed, .. }) if completed == id => return,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
