//! The tools for agents at `/mcp`.

use std::sync::Arc;

use axum::Router;
use clap::Args;
use pandastack_control::Control;
use pandastack_mcp::{McpDoor, McpSettings, limits::CALLS_PER_MINUTE};

#[derive(Args)]
pub struct McpServerArgs {
    /// Tool calls (MCP) of one workspace in one minute; 0 means no limit
    #[arg(long, env = "PANDASTACK_MCP_RATE_PER_MIN", default_value_t = CALLS_PER_MINUTE, value_name = "COUNT")]
    mcp_rate: u32,
}

impl McpServerArgs {
    /// Adds the tools to the routes of the server. `issuer` is that of tokens which the server
    /// accepts as they are.
    pub fn add_to(&self, app: Router, control: &Control, public_url: Option<&str>, issuer: Option<&str>) -> Router {
        let settings = McpSettings {
            calls_per_minute: self.mcp_rate,
            public_url: public_url.map(str::to_owned),
            issuers: issuer.map(str::to_owned).into_iter().collect(),
        };
        McpDoor::add_to(app, Arc::new(control.clone()), settings, |routes| control.guard(routes))
    }
}
