//! A subscription of a stateless caller: acknowledged first, each item tagged with it, ended with a result.

use std::sync::Arc;

use super::{Reply, Source, watching::Subscription};
use crate::{
    down::{
        accent::{self, Said},
        tasks,
    },
    json::Raw,
    message::{
        RpcError, capability, compose, meta,
        splice::{self, Edit},
    },
    notice::{Notice, filter},
};

impl Reply {
    pub(super) fn listen(&mut self) -> Result<(), RpcError> {
        let (wanted, ids) = (filter::read(self.request.params()), filter::tasks(self.request.params()));
        if !ids.is_empty() && !self.caller.capabilities.extension(capability::TASKS) {
            return Err(tasks::undeclared());
        }
        let limit = self.downstream.options.limits.concurrent_requests;
        if limit < ids.len() {
            return Err(accent::too_many(limit));
        }
        let subscribing = Subscription::to(Arc::clone(&self.downstream), self.caller.clone(), wanted, ids);
        self.source = Source::Subscribing(Box::pin(subscribing));
        Ok(())
    }

    pub(super) fn acknowledge(&mut self, subscription: Subscription) {
        let acknowledged = filter::written_with(&subscription.heard.honoured, &subscription.tasks);
        self.say_notification("notifications/subscriptions/acknowledged", Some(&acknowledged));
        self.source = Source::Listening(subscription);
    }

    pub(super) fn hear(&mut self, notice: Option<Notice>) {
        match notice {
            Some(Notice::Changed(list)) => self.say_notification(list.changed_method(), None),
            Some(Notice::Updated { params, .. }) => {
                self.say_notification("notifications/resources/updated", Some(&params))
            }
            Some(Notice::Other { method, params }) => self.say_notification(&method, params.as_ref()),
            Some(Notice::Log(_) | Notice::Fault(_) | Notice::Missed(_)) => {}
            None => {
                let tag = Edit::Set(meta::SUBSCRIPTION_ID, self.id.raw());
                let result = splice::edited(&Raw::empty_object(), &[meta::with_keys(None, &[tag])]);
                let said = self.answered(&result);
                self.unsaid.push_back(said);
                self.source = Source::Nothing;
            }
        }
    }

    /// A notification on this subscription, tagged with it.
    fn say_notification(&mut self, method: &str, params: Option<&Raw>) {
        let tag = Edit::Set(meta::SUBSCRIPTION_ID, self.id.raw());
        let edit = meta::with_keys(params, &[tag]);
        self.unsaid.push_back(Said::more(compose::notification(method, params, &[edit])));
    }
}
