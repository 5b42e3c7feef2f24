//! A user who signs in when prompted, with the test browser and a real callback listener.

use std::{future::pending, io, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::timeout;
use toolway_auth::{
    browser::{Browser, BrowserError, SignInPrompt, Visit},
    callback::{CallbackListener, ReceivedCallback},
};
use url::Url;

use super::test_browser;

/// A user who agrees to everything. Clones share the same state.
#[derive(Clone, Debug)]
pub struct TestUser {
    who: String,
    // Nothing awaits under this lock.
    prompts: Arc<Mutex<Vec<SignInPrompt>>>,
}

/// One visit of this user.
struct UserVisit {
    user: TestUser,
    listener: CallbackListener,
}

/// Time limit for the callback.
const PATIENCE: Duration = Duration::from_secs(10);

impl TestUser {
    /// A user with this name at the authorization server.
    pub fn named(who: &str) -> Self {
        Self { who: who.to_owned(), prompts: Arc::default() }
    }

    /// Prompts so far.
    pub fn prompts(&self) -> Vec<SignInPrompt> {
        self.prompts.lock().clone()
    }
}

impl Browser for TestUser {
    fn prepare<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, BrowserError>> {
        Box::pin(async move {
            let listener = CallbackListener::bind_again(before).await.map_err(|error| failed(&error))?;
            Ok(Box::new(UserVisit { user: self.clone(), listener }) as Box<dyn Visit>)
        })
    }
}

impl Visit for UserVisit {
    fn redirect(&self) -> Url {
        self.listener.redirect().clone()
    }

    fn begin(self: Box<Self>, prompt: SignInPrompt) -> BoxFuture<'static, Result<ReceivedCallback, BrowserError>> {
        Box::pin(async move {
            self.user.prompts.lock().push(prompt.clone());
            let back =
                test_browser::visit(prompt.address.expose(), &self.user.who).await.map_err(|error| failed(&error))?;
            // The last page is not awaited, because it comes when the sign-in is finished.
            let opened = async {
                let _page = test_browser::open(&back, &self.user.who).await;
                pending::<ReceivedCallback>().await
            };
            let called = async {
                tokio::select! {
                    callback = self.listener.callback(&prompt.state) => callback,
                    callback = opened => callback,
                }
            };
            timeout(PATIENCE, called).await.map_err(|_| BrowserError::TimedOut)
        })
    }
}

fn failed(error: &io::Error) -> BrowserError {
    BrowserError::Failed(error.to_string())
}
