//! The methods of the protocol as functions, for whoever does not want to spell requests: lists in bounded pages,
//! calls, reads, prompts, completion, ping. Each is [`Peer::open`] and nothing more.

use std::collections::HashSet;

use serde_json::json;

use super::Peer;
use crate::{
    error::WireError,
    exchange::{Exchange, Outcome, Request, ExchangeTimeouts},
    json::Raw,
    message::{
        RequestProblem,
        item::{self, Item, Malformed, Prompt, Resource, Template, Tool},
        result::CacheHint,
        splice,
    },
};

/// Everything one list holds.
#[derive(Clone, Debug)]
pub struct Listing<T> {
    /// The items, in the server's order.
    pub items: Vec<T>,
    /// Items that could not be read, and tools that may not be offered.
    pub malformed: Vec<Malformed>,
    /// How long the server says this keeps: the shortest of its pages.
    pub cache: CacheHint,
}

/// What is completed.
#[derive(Clone, Debug)]
pub enum CompletionTarget {
    /// An argument of this prompt.
    Prompt(String),
    /// A variable of this resource template.
    Resource(String),
}

impl Peer {
    /// All tools.
    pub async fn list_tools(&self) -> Result<Listing<Tool>, WireError> {
        let mut listing = self.list::<Tool>().await?;
        let accent = self.router().accent()?;
        listing.leave_out(|tool| accent.rejection_reason(tool));
        Ok(listing)
    }

    /// All resources.
    pub async fn list_resources(&self) -> Result<Listing<Resource>, WireError> {
        self.list().await
    }

    /// All resource templates.
    pub async fn list_templates(&self) -> Result<Listing<Template>, WireError> {
        self.list().await
    }

    /// All prompts.
    pub async fn list_prompts(&self) -> Result<Listing<Prompt>, WireError> {
        self.list().await
    }

    /// All items of one kind, page by page, within bounds.
    pub async fn list<T: Item>(&self) -> Result<Listing<T>, WireError> {
        let limits = &self.router().limits;
        let mut listing: Option<Listing<T>> = None;
        let (mut cursor, mut seen, mut bytes) = (None::<Raw>, HashSet::new(), 0);
        for _ in 0..limits.listing_pages {
            let params = cursor.map(|cursor: Raw| Raw::of(&json!({ "cursor": cursor.as_str() })));
            let result = self.answer(Request::trusted(T::METHOD, params), self.timeouts().list).await?;
            bytes += result.as_bytes().len();
            if limits.listing_bytes < bytes {
                return Err(WireError::TooLarge { what: "listing", limit: limits.listing_bytes });
            }
            let page = item::read_items_within::<T>(&result, limits.listing_items);
            let (items, malformed) = page.map_err(WireError::Protocol)?;
            let page = Listing { items, malformed, cache: CacheHint::view(&result) };
            let so_far = match listing.take() {
                Some(so_far) => so_far.and(page),
                None => page,
            };
            if limits.listing_items < so_far.items.len() + so_far.malformed.len() {
                return Err(WireError::TooLarge { what: "listing", limit: limits.listing_items });
            }
            cursor = match result.get("nextCursor").filter(|next| next.as_str().is_some()) {
                None => return Ok(so_far),
                Some(next) if !seen.insert(next.as_bytes().to_vec()) => {
                    return Err(WireError::protocol(format!("the cursor {next} came twice in one listing")));
                }
                Some(next) => Some(next),
            };
            listing = Some(so_far);
        }
        Err(WireError::TooLarge { what: "number of pages", limit: limits.listing_pages })
    }

    /// Calls a tool. `arguments` go out as they are; without any, none are sent.
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

    /// Asks for a sign of life.
    pub async fn ping(&self) -> Result<(), WireError> {
        self.answer(self.ping_request()?, self.timeouts().list).await.map(drop)
    }

    /// The request that a server answers without doing anything.
    pub fn ping_request(&self) -> Result<Request, WireError> {
        Ok(Request::trusted(self.router().accent()?.ping_method(), None))
    }

    /// The result of a request in which nothing is asked and nothing else can happen.
    pub async fn answer(&self, request: Request, terms: ExchangeTimeouts) -> Result<Raw, WireError> {
        let method = request.method().to_owned();
        let handler = self.router().request_handler().cloned();
        match self.open(request, terms).outcome_with(handler.as_deref(), |_| {}).await {
            Outcome::Answered(result) => Ok(result),
            Outcome::Refused(error) => Err(WireError::Refused(format!("`{method}`: {error}"))),
            Outcome::Failed(error) => Err(error),
            Outcome::TimedOut { kind, limit } => Err(WireError::TimedOut { kind, limit }),
            Outcome::Cancelled => Err(WireError::Ended(format!("`{method}` was given up"))),
            Outcome::HandedOff(_) => Err(WireError::protocol(format!("a task in the place of a `{method}` result"))),
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
    /// What someone objects to is reported, not offered.
    fn leave_out(&mut self, objection: impl Fn(&Tool) -> Option<String>) {
        let tools = std::mem::take(&mut self.items);
        for (index, tool) in tools.into_iter().enumerate() {
            match objection(&tool) {
                None => self.items.push(tool),
                Some(why) => {
                    let problem = format!("`{}`: {why}", tool.name);
                    self.malformed.push(Malformed { what: Tool::WHAT, index, problem, raw: tool.raw });
                }
            }
        }
    }
}

impl<T> Listing<T> {
    fn and(mut self, page: Self) -> Self {
        self.items.extend(page.items);
        self.malformed.extend(page.malformed);
        self.cache.keeps = self.cache.keeps.min(page.cache.keeps);
        if page.cache.scope == crate::message::result::CacheScope::Private {
            self.cache.scope = page.cache.scope;
        }
        self
    }
}
