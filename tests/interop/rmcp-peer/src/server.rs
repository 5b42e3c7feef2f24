//! The server as the SDK sees it: which methods exist in which era, and their handlers.
//!
//! Over stdio there is one [`Server`]; over HTTP there is one per handshake session and one per stateless request.
//! Shared state is in [`World`]. The handlers are in [`crate::tools`], [`crate::resources`] and
//! [`crate::prompts`].
#![expect(deprecated, reason = "the SDK marks logging as deprecated; clients still use it")]

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, DiscoverRequestMethod,
    DiscoverResult, ErrorData, GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    LoggingLevel, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use tokio_util::sync::CancellationToken;

use crate::args::Era;
use crate::audience::{Audience, Listener, Subscriptions};
use crate::{prompts, resources, tools};

/// One session, or one stateless request.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) world: Arc<World>,
    era: Era,
    /// Level set with `logging/setLevel`.
    level: Mutex<Option<LoggingLevel>>,
    subscriptions: Subscriptions,
}

/// State shared by all sessions.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) audience: Audience,
    /// Calls of `sleep` that were cancelled.
    pub(crate) cancelled: AtomicU64,
    /// How often the tool list was touched; it is part of the list.
    pub(crate) list_edition: AtomicU64,
    /// How often `memo://one` was touched; it is part of its text.
    pub(crate) memo_edition: AtomicU64,
    /// Cancelled when stdin ended, so that all listeners end.
    pub(crate) ended: CancellationToken,
}

pub(crate) type Context = RequestContext<RoleServer>;

/// Whether this is a 2026-07-28 request.
pub(crate) fn is_modern(context: &Context) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

// === impl Server ===

impl Server {
    pub(crate) fn new(era: Era, world: Arc<World>) -> Self {
        Self { world, era, level: Mutex::default(), subscriptions: Subscriptions::default() }
    }

    /// Minimum log level of this request; `None` if it wants no logs.
    pub(crate) fn log_level(&self, context: &Context) -> Option<LoggingLevel> {
        if is_modern(context) {
            context.meta.log_level()
        } else {
            Some(self.level.lock().unwrap_or(LoggingLevel::Debug))
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rmcp-peer", env!("CARGO_PKG_VERSION")))
            .with_instructions("A peer for tests.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.era.versions()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: Context,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request);
        let subscriptions = self.subscriptions.clone();
        self.world.audience.join(Listener::Session { peer: context.peer, subscriptions });
        Ok(result)
    }

    async fn discover(&self, _: Context) -> Result<DiscoverResult, ErrorData> {
        if self.era == Era::Legacy {
            return Err(ErrorData::method_not_found::<DiscoverRequestMethod>());
        }
        Ok(DiscoverResult::from_server_info(self.era.versions().into_owned(), self.get_info()))
    }

    async fn set_level(&self, request: SetLevelRequestParams, context: Context) -> Result<(), ErrorData> {
        // The SDK refuses the other handshake methods by itself, not this one.
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock() = Some(request.level);
        Ok(())
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: Context) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(&self.world)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list(&self.world).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(&self, call: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        tools::call(self, &call, &context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&self.world, &request.uri).map(Into::into)
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        resources::read(&self.world, &request.uri)?;
        self.subscriptions.lock().insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        self.subscriptions.lock().remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.world.audience.accept_stream();
        // The SDK removes what our capabilities do not declare.
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let listener = self.world.audience.join(Listener::Stream(context.sink().clone()));
        tokio::select! {
            () = context.cancelled() => {}
            () = self.world.ended.cancelled() => {}
        }
        self.world.audience.leave(listener);
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(&self, request: GetPromptRequestParams, _: Context) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request).map(Into::into)
    }

    async fn complete(&self, request: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        prompts::complete(&request)
    }
}
