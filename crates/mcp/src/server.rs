//! The protocol over the tools: lists, calls with progress and cancellation, resources.

use std::{sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, Implementation,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use tokio::time::Instant;

use crate::{
    api::Api,
    limits::PROGRESS_EVERY,
    output::{ToolOutput, ToolPart},
    resources,
    tools::{self, ToolEffect, ToolFilter, ToolSpec},
};

const INSTRUCTIONS: &str = "Sandboxes are Linux machines for your own use, each with its own kernel. Create one with \
                            create_sandbox, work in it with run_command, run_code and the file tools, and delete it \
                            with delete_sandbox. Files and background processes persist between calls. fork_sandbox \
                            copies a running sandbox, memory included. create_database makes a PostgreSQL database, \
                            and query_database runs SQL in it. A tool that fails explains what to do next.";

/// The API that a request uses, as an extension of the request.
#[derive(Clone)]
pub struct RequestApi(pub Arc<dyn Api>);

/// The server of one connection, or of one HTTP request.
#[derive(Clone)]
pub struct ToolServer {
    /// The API of all requests; by default each request has its own.
    pub api: Option<RequestApi>,
    pub filter: Arc<ToolFilter>,
}

impl ToolServer {
    fn api(&self, context: &RequestContext<RoleServer>) -> Result<Arc<dyn Api>, ErrorData> {
        let own = || context_api(context);
        let RequestApi(api) = self
            .api
            .clone()
            .or_else(own)
            .ok_or_else(|| ErrorData::internal_error("the request has no caller", None))?;
        Ok(api)
    }

    fn find(&self, name: &str) -> Option<&'static ToolSpec> {
        tools::catalogue().iter().find(|tool| tool.name == name && self.filter.allows(tool))
    }

    /// Runs a tool and tells the caller that it goes on. Cancellation drops the request to the API,
    /// which ends the work there.
    async fn call(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> ToolOutput {
        let Some(tool) = self.find(&request.name) else { return ToolOutput::failure(tools::unknown(&request.name)) };
        let api = match self.api(&context) {
            Ok(api) => api,
            Err(error) => return ToolOutput::failure(error.message),
        };
        let arguments = request.arguments.unwrap_or_default();
        tokio::select! {
            output = tools::run(&*api, tool.name, &arguments) => output,
            () = context.ct.cancelled() => ToolOutput::failure("cancelled"),
            never = tell_progress(tool, &context) => never,
        }
    }
}

#[cfg(feature = "http")]
fn context_api(context: &RequestContext<RoleServer>) -> Option<RequestApi> {
    context.extensions.get::<axum::http::request::Parts>()?.extensions.get::<RequestApi>().cloned()
}

#[cfg(not(feature = "http"))]
fn context_api(_: &RequestContext<RoleServer>) -> Option<RequestApi> {
    None
}

/// Notifies the caller at intervals, if it asked for it. Never ends.
async fn tell_progress(tool: &ToolSpec, context: &RequestContext<RoleServer>) -> ToolOutput {
    let Some(token) = context.meta.get_progress_token() else { return std::future::pending().await };
    let began = Instant::now();
    loop {
        tokio::time::sleep(PROGRESS_EVERY).await;
        let took = began.elapsed();
        let progress = ProgressNotificationParam::new(token.clone(), took.as_secs_f64()).with_message(format!(
            "{} has been running for {} s",
            tool.name,
            took.as_secs()
        ));
        // A caller that does not read must not stop the tool.
        let _ = tokio::time::timeout(Duration::from_secs(5), context.peer.notify_progress(progress)).await;
    }
}

/// Describes this server.
pub fn introduction() -> ServerConfig {
    let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
    ServerConfig::new(capabilities)
        .with_server_info(Implementation::new("pandastack", env!("CARGO_PKG_VERSION")))
        .with_instructions(INSTRUCTIONS)
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        introduction()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = tools::catalogue().iter().filter(|tool| self.filter.allows(tool));
        Ok(ListToolsResult::with_all_items(offered.map(described).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.find(name).map(described)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(rendered(self.call(request, context).await).into())
    }

    // Without prompts this method is unknown.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "prompts/list", None))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let api = self.api(&context)?;
        tokio::select! {
            listed = resources::list(&*api) => listed.map(ListResourcesResult::with_all_items),
            () = context.ct.cancelled() => Ok(ListResourcesResult::default()),
        }
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![resources::template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let api = self.api(&context)?;
        tokio::select! {
            read = resources::read(&*api, &request.uri) => Ok(ReadResourceResult::new(vec![read?]).into()),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }
}

fn described(tool: &ToolSpec) -> Tool {
    let (reads, removes, repeats) = match tool.effect {
        ToolEffect::Reads => (true, false, true),
        ToolEffect::Adds => (false, false, false),
        ToolEffect::Sets => (false, false, true),
        ToolEffect::Runs => (false, true, false),
        ToolEffect::Removes => (false, true, true),
    };
    let hints = ToolAnnotations::with_title(tool.title)
        .read_only(reads)
        .destructive(removes)
        .idempotent(repeats)
        .open_world(tool.effect == ToolEffect::Runs);
    Tool::new(tool.name, tool.description, tool.schema()).with_title(tool.title).with_annotations(hints)
}

fn rendered(output: ToolOutput) -> CallToolResult {
    let part = |part| match part {
        ToolPart::Text(text) => ContentBlock::text(text),
        ToolPart::Image { data, mime } => ContentBlock::image(data, mime),
    };
    let content = output.parts.into_iter().map(part).collect();
    if output.failed { CallToolResult::error(content) } else { CallToolResult::success(content) }
}
