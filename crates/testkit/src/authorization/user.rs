//! A person who signs in when asked: the visitor's browser, and a callback that is really listened for.

use std::{future::pending, io, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::timeout;
use toolway_auth::{
    browser::{Browser, Declined, Invitation, Visit},
    callback::{Arrival, CallbackListener},
};
use url::Url;

use super::visitor;

/// A person who agrees to everything. Cloning is cheap; every clone is the same person.
#[derive(Clone, Debug)]
pub struct Person {
    who: String,
    // Nothing awaits under this lock.
    invited: Arc<Mutex<Vec<Invitation>>>,
}

/// One visit of theirs.
struct Sitting {
    person: Person,
    listener: CallbackListener,
}

/// Nobody waits longer for a callback that does not come.
const PATIENCE: Duration = Duration::from_secs(10);

impl Person {
    /// The authorization server knows them by this name.
    pub fn named(who: &str) -> Self {
        Self { who: who.to_owned(), invited: Arc::default() }
    }

    /// What they were asked to do so far.
    pub fn invitations(&self) -> Vec<Invitation> {
        self.invited.lock().clone()
    }
}

impl Browser for Person {
    fn ready<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, Declined>> {
        Box::pin(async move {
            let listener = CallbackListener::bind_again(before).await.map_err(|error| failed(&error))?;
            Ok(Box::new(Sitting { person: self.clone(), listener }) as Box<dyn Visit>)
        })
    }
}

impl Visit for Sitting {
    fn redirect(&self) -> Url {
        self.listener.redirect().clone()
    }

    fn begin(self: Box<Self>, invitation: Invitation) -> BoxFuture<'static, Result<Arrival, Declined>> {
        Box::pin(async move {
            self.person.invited.lock().push(invitation.clone());
            let back =
                visitor::visit(invitation.address.expose(), &self.person.who).await.map_err(|error| failed(&error))?;
            // The page is not waited for: it comes when the sign-in is over.
            let opened = async {
                let _page = visitor::open(&back, &self.person.who).await;
                pending::<Arrival>().await
            };
            let called = async {
                tokio::select! {
                    arrival = self.listener.callback(&invitation.state) => arrival,
                    arrival = opened => arrival,
                }
            };
            timeout(PATIENCE, called).await.map_err(|_| Declined::TimedOut)
        })
    }
}

fn failed(error: &io::Error) -> Declined {
    Declined::Failed(error.to_string())
}
