//! `subscriptions/listen`: acknowledged first, each notification tagged with the subscription, ended with a result.

use std::sync::Arc;

use super::{ModernReply, ModernSource, task_subscription::ActiveSubscription};
use crate::{
    down::{
        accent::{self, OutgoingMessage},
        tasks,
    },
    json::Raw,
    message::{
        RpcError, capability, compose, meta,
        splice::{self, Edit},
    },
    notice::{Notice, filter},
};

impl ModernReply {
    pub(super) fn listen(&mut self) -> Result<(), RpcError> {
        let (wanted, ids) = (filter::read(self.request.params()), filter::tasks(self.request.params()));
        if !ids.is_empty() && !self.caller.capabilities.extension(capability::TASKS) {
            return Err(tasks::not_declared());
        }
        let limit = self.downstream.options.limits.concurrent_requests;
        if limit < ids.len() {
            return Err(accent::too_many(limit));
        }
        let subscribing = ActiveSubscription::to(Arc::clone(&self.downstream), self.caller.clone(), wanted, ids);
        self.source = ModernSource::Subscribing(Box::pin(subscribing));
        Ok(())
    }

    pub(super) fn acknowledge(&mut self, subscription: ActiveSubscription) {
        let acknowledged = filter::encode_with_tasks(&subscription.service.accepted, &subscription.tasks);
        self.push_notification("notifications/subscriptions/acknowledged", Some(&acknowledged));
        self.source = ModernSource::Listening(subscription);
    }

    pub(super) fn send_notice(&mut self, notice: Option<Notice>) {
        match notice {
            Some(Notice::Changed(list)) => self.push_notification(list.changed_method(), None),
            Some(Notice::Updated { params, .. }) => {
                self.push_notification("notifications/resources/updated", Some(&params))
            }
            Some(Notice::Other { method, params }) => self.push_notification(&method, params.as_ref()),
            // This era has no such notification.
            Some(Notice::UrlCompleted { .. }) => {}
            Some(Notice::Log(_) | Notice::Fault(_) | Notice::Missed(_)) => {}
            None => {
                let tag = Edit::Set(meta::SUBSCRIPTION_ID, self.id.raw());
                let result = splice::edited(&Raw::empty_object(), &[meta::with_keys(None, &[tag])]);
                let message = self.answered(&result);
                self.outgoing.push_back(message);
                self.source = ModernSource::Nothing;
            }
        }
    }

    /// Queues a notification tagged with this subscription.
    fn push_notification(&mut self, method: &str, params: Option<&Raw>) {
        let tag = Edit::Set(meta::SUBSCRIPTION_ID, self.id.raw());
        let edit = meta::with_keys(params, &[tag]);
        self.outgoing.push_back(OutgoingMessage::notification(compose::notification(method, params, &[edit])));
    }
}
