//! Protocol methods as functions: lists over all pages, calls, reads, prompts, completion, ping. Each is a wrapper around
//! [`Peer::open`].

use std::collections::HashSet;

use serde_json::json;

use super::{Peer, transport::Outbound};
use crate::{
    budget::{Charge, Kept},
    error::WireError,
    exchange::{Exchange, ExchangeTimeouts, Outcome, Request},
    json::Raw,
    message::{
        RequestProblem,
        item::{self, Item, MalformedItem, Prompt, Resource, Template, Tool},
        result::CacheHint,
        splice,
    },
};

/// All items of one list, over all pages.
#[derive(Debug)]
pub struct Listing<T> {
    /// The items, in the server's order.
    pub items: Vec<T>,
    /// Items that could not be parsed, and tools that must not be listed.
    pub malformed: Vec<MalformedItem>,
    /// Cache hint of the server: the shortest time of all pages.
    pub cache: CacheHint,
    /// Charge for the pages and the items, as long as the list is read.
    pub charge: Charge,
}

/// What `completion/complete` completes.
#[derive(Clone, Debug)]
pub enum CompletionTarget {
    /// An argument of this prompt.
    Prompt(String),
    /// A variable of this resource template.
    Resource(String),
}

/// A list that is too large, with the key of the configuration that bounds it.
const LISTING: &str = "a list of the server (`limits.listing`)";

impl Peer {
    /// Announces that our roots changed, if they were declared and the server does not ask for them with each request.
    pub fn announce_roots_changed(&self) -> Result<(), WireError> {
        match self.router().accent()?.roots_changed_notification() {
            Some(message) => self.router().send(Outbound::plain(message, None)),
            None => Ok(()),
        }
    }

    /// Lists all tools.
    pub async fn list_tools(&self) -> Result<Listing<Tool>, WireError> {
        let mut listing = self.list::<Tool>().await?;
        let accent = self.router().accent()?;
        listing.reject(|tool| accent.rejection_reason(tool));
        Ok(listing)
    }

    /// Lists all resources.
    pub async fn list_resources(&self) -> Result<Listing<Resource>, WireError> {
        self.list().await
    }

    /// Lists all resource templates.
    pub async fn list_templates(&self) -> Result<Listing<Template>, WireError> {
        self.list().await
    }

    /// Lists all prompts.
    pub async fn list_prompts(&self) -> Result<Listing<Prompt>, WireError> {
        self.list().await
    }

    /// Lists all items of one kind, page by page, within the limits.
    pub async fn list<T: Item>(&self) -> Result<Listing<T>, WireError> {
        let limits = &self.router().limits;
        let mut listing: Option<Listing<T>> = None;
        let (mut cursor, mut seen, mut bytes) = (None::<Raw>, HashSet::new(), 0);
        let memory = limits.memory.keeping(Kept::Listing);
        for _ in 0..limits.listing_pages {
            let params = cursor.map(|cursor: Raw| Raw::of(&json!({ "cursor": cursor.as_str() })));
            let result = self.answer(Request::trusted(T::METHOD, params), self.timeouts().list).await?;
            bytes += result.as_bytes().len();
            if limits.listing_bytes < bytes {
                return Err(self.listing_too_large());
            }
            let mut charge = memory.charge(result.as_bytes().len())?;
            let page = item::read_items_within::<T>(&result, limits.listing_items);
            let (items, malformed) = page.map_err(WireError::Protocol)?;
            charge.grow(items.iter().map(Item::owned_bytes).sum::<usize>() + size_of_val(&*malformed))?;
            let page = Listing { items, malformed, cache: CacheHint::view(&result), charge };
            let so_far = match listing.take() {
                Some(so_far) => so_far.append(page),
                None => page,
            };
            if limits.listing_items < so_far.items.len() + so_far.malformed.len() {
                return Err(WireError::TooLarge { what: "number of items of a list", limit: limits.listing_items });
            }
            cursor = match result.get("nextCursor").filter(|next| next.as_str().is_some()) {
                None => return Ok(so_far),
                Some(next) if !seen.insert(next.as_bytes().to_vec()) => {
                    return Err(WireError::protocol(format!("the server repeated the cursor {next} in one listing")));
                }
                Some(next) => Some(next),
            };
            listing = Some(so_far);
        }
        Err(WireError::TooLarge { what: "number of pages", limit: limits.listing_pages })
    }

    /// The error for a list that exceeds its bound.
    pub fn listing_too_large(&self) -> WireError {
        WireError::TooLarge { what: LISTING, limit: self.router().limits.listing_bytes }
    }

    /// Calls a tool. `arguments` are sent unchanged; `None` omits the member.
    pub fn call_tool(&self, name: &str, arguments: Option<Raw>) -> Result<Exchange, RequestProblem> {
        self.open_named("tools/call", name, arguments)
    }

    /// Gets a prompt.
    pub fn get_prompt(&self, name: &str, arguments: Option<Raw>) -> Result<Exchange, RequestProblem> {
        self.open_named("prompts/get", name, arguments)
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: &str) -> Exchange {
        let params = Raw::of(&json!({ "uri": uri }));
        self.open(Request::trusted("resources/read", Some(params)), self.timeouts().call)
    }

    /// Completes one argument; `known` are the values of others, as an object of strings.
    pub async fn complete(
        &self,
        reference: &CompletionTarget,
        argument: (&str, &str),
        known: Option<&serde_json::Value>,
    ) -> Result<Raw, WireError> {
        let reference = match reference {
            CompletionTarget::Prompt(name) => json!({ "type": "ref/prompt", "name": name }),
            CompletionTarget::Resource(uri) => json!({ "type": "ref/resource", "uri": uri }),
        };
        let mut params = json!({ "ref": reference, "argument": { "name": argument.0, "value": argument.1 } });
        if let (Some(known), true) = (known, self.router().accent()?.completes_in_context()) {
            params["context"] = json!({ "arguments": known });
        }
        self.answer(Request::trusted("completion/complete", Some(Raw::of(&params))), self.timeouts().list).await
    }

    /// Sends a ping and waits for the response.
    pub async fn ping(&self) -> Result<(), WireError> {
        self.answer(self.ping_request()?, self.timeouts().list).await.map(drop)
    }

    /// Returns a request that serves as a ping.
    pub fn ping_request(&self) -> Result<Request, WireError> {
        Ok(Request::trusted(self.router().accent()?.ping_method(), None))
    }

    /// Sends a request and returns its result; server requests go to the connection's handler, other events are ignored.
    pub async fn answer(&self, request: Request, timeouts: ExchangeTimeouts) -> Result<Raw, WireError> {
        let method = request.method().to_owned();
        let handler = self.router().request_handler().cloned();
        match self.open(request, timeouts).outcome_with(handler.as_deref(), |_| {}).await {
            Outcome::Answered(result) => Ok(result),
            Outcome::Refused(error) => Err(WireError::Refused(format!("`{method}`: {error}"))),
            Outcome::Failed(error) => Err(error),
            Outcome::TimedOut { kind, limit } => Err(WireError::TimedOut { kind, limit }),
            Outcome::Cancelled => Err(WireError::Ended(format!("`{method}` was cancelled"))),
            Outcome::HandedOff(_) => {
                Err(WireError::protocol(format!("unexpected task instead of a `{method}` result")))
            }
        }
    }

    fn open_named(&self, method: &'static str, name: &str, arguments: Option<Raw>) -> Result<Exchange, RequestProblem> {
        let members = [Some(("name", Raw::of(name))), arguments.map(|arguments| ("arguments", arguments))];
        let params = splice::object(members.iter().flatten().map(|(key, value)| (*key, value)));
        let request = Request::new(method, Some(params))?.with_progress();
        Ok(self.open(request, self.timeouts().call))
    }
}

impl Listing<Tool> {
    /// Moves tools with a rejection reason to `malformed`.
    fn reject(&mut self, reason: impl Fn(&Tool) -> Option<String>) {
        let tools = std::mem::take(&mut self.items);
        for (index, tool) in tools.into_iter().enumerate() {
            match reason(&tool) {
                None => self.items.push(tool),
                Some(why) => {
                    let problem = format!("`{}`: {why}", tool.name);
                    self.malformed.push(MalformedItem { what: Tool::WHAT, index, problem, raw: tool.raw });
                }
            }
        }
    }
}

impl<T> Listing<T> {
    fn append(mut self, page: Self) -> Self {
        self.charge.take_over(page.charge);
        self.items.extend(page.items);
        self.malformed.extend(page.malformed);
        self.cache.ttl = self.cache.ttl.min(page.cache.ttl);
        if page.cache.scope == crate::message::result::CacheScope::Private {
            self.cache.scope = page.cache.scope;
        }
        self
    }
}
