//! `dueq mcp`: a server of the Model Context Protocol on standard input and output, with which an agent uses a dueq server.
//!
//! Each tool is a request of the API, so an agent may no more than its API key. Without `--allow-write` the tools that change
//! something do not exist.

mod answer;
mod call;
mod lines;
mod params;
mod prompts;
mod tools;

use super::{
    api::{Client, Server},
    exit_code,
    failure::Failure,
    say,
};
use crate::cli::signals;
use anstyle::AnsiColor;
use clap::Args;
use lines::Lines;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
        CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
        Implementation, ListPromptsResult, ListToolsResult, PaginatedRequestParams, PromptMessage,
        Role, ServerCapabilities, ServerConfig,
    },
    serve_server,
    service::{RequestContext, ServerInitializeError},
};
use serde_json::Value;
use std::{pin::pin, process::ExitCode};

/// Arguments of `dueq mcp`.
#[derive(Args)]
pub struct McpArgs {
    /// Add the tools that change something: schedule, publish, move, cancel, redrive, pause. Without it an agent can only look.
    #[arg(long)]
    allow_write: bool,
    #[command(flatten)]
    server: Server,
}

/// Serves one client until its end of standard input, or SIGTERM. The exit code is 0 then, and 2 for wrong usage.
pub async fn mcp(args: McpArgs) -> ExitCode {
    exit_code(serve(args).await)
}

async fn serve(McpArgs { allow_write, server }: McpArgs) -> Result<(), Failure> {
    let agent = Agent { client: Client::new(&server)?, allow_write };
    let stop = signals::stop().map_err(|error| Failure::Usage(error.to_string()))?;
    let mode = if allow_write { "reading and writing" } else { "read-only (see --allow-write)" };
    say(AnsiColor::Green, &format!("MCP server of {}, {mode}", agent.client.server));
    let (lines, mut written) = Lines::begin();
    let session = async {
        match serve_server(agent, lines).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    };
    let mut stop = pin!(stop);
    tokio::select! {
        biased;
        end = session => end.map_err(Failure::Incomplete)?,
        // The answers have no reader any more, so nothing more is to be done.
        _ = &mut written => return Ok(()),
        () = &mut stop => return Ok(()),
    }
    // The last answers are on their way.
    tokio::select! {
        _ = written => Ok(()),
        () = stop => Ok(()),
    }
}

/// What an agent talks to.
struct Agent {
    client: Client,
    allow_write: bool,
}

impl ServerHandler for Agent {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("dueq", env!("CARGO_PKG_VERSION")))
            .with_instructions(prompts::instructions(self.allow_write))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools::all(self.allow_write).map(tools::Tool::described);
        of_json(tools.collect()).map(ListToolsResult::with_all_items)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = tools::all(self.allow_write).find(|tool| tool.name == request.name);
        let unknown = || ErrorData::invalid_params(format!("unknown tool: {}", request.name), None);
        let tool = tool.ok_or_else(unknown)?;
        let arguments = request.arguments.unwrap_or_default();
        // A refusal is the tool's answer, not an error of the protocol: so the agent reads it.
        let result = match call::call(&self.client, tool, &arguments).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(reason) => {
                CallToolResult::error(vec![ContentBlock::text(answer::refusal(&reason))])
            }
        };
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        of_json(prompts::described()).map(ListPromptsResult::with_all_items)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = prompts::text(&request.name, &arguments);
        let text = text.map_err(|reason| ErrorData::invalid_params(reason, None))?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    /// Requests of unknown methods come here, and those of known ones whose parameters are not theirs.
    async fn on_custom_request(
        &self,
        CustomRequest { method, .. }: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match &*method {
            "tools/call" | "tools/list" | "prompts/get" | "prompts/list" => {
                ErrorData::invalid_params(format!("invalid parameters of {method}"), None)
            }
            _ => ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("unknown method: {method}"),
                None,
            ),
        })
    }
}

/// What the protocol's types are in JSON.
fn of_json<T: serde::de::DeserializeOwned>(json: Value) -> Result<T, ErrorData> {
    serde_json::from_value(json).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
