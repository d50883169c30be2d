//! The figures with a target: their names and targets.

/// One figure with a target.
pub struct Figure {
    pub key: &'static str,
    /// Description for people.
    pub label: &'static str,
    pub unit: &'static str,
    pub goal: Goal,
}

/// The target of a figure.
#[derive(Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    pub fn is_met(self, value: f64) -> bool {
        self.share(value) <= 1.0
    }

    /// Value as a share of the target: 1 is exactly the target, less is better.
    pub fn share(self, value: f64) -> f64 {
        match self {
            Goal::AtMost(target) => value / target,
            Goal::AtLeast(target) => target / value,
        }
    }

    pub fn target(self) -> f64 {
        match self {
            Goal::AtMost(target) | Goal::AtLeast(target) => target,
        }
    }
}

const fn at_most(key: &'static str, label: &'static str, unit: &'static str, target: f64) -> Figure {
    Figure { key, label, unit, goal: Goal::AtMost(target) }
}

const fn at_least(key: &'static str, label: &'static str, unit: &'static str, target: f64) -> Figure {
    Figure { key, label, unit, goal: Goal::AtLeast(target) }
}

/// Every figure with a target, in the order of the table in the README.
pub const FIGURES: &[Figure] = &[
    at_most("create_warm_ms_p50", "create, from a warm pool", "ms", 10.0),
    at_most("create_standby_ms_p50", "create, from a standby machine", "ms", 60.0),
    at_most("create_cold_ms_p50", "create, nothing prepared", "ms", 130.0),
    at_most("create_standby_per_boot", "create from standby, as a share of a first boot", "", 0.025),
    at_most("tti_ms_p50", "create and first output, published Python client", "ms", 110.0),
    at_most("code_first_per_tti", "create and first cell with pandas, compared with that", "×", 8.0),
    at_most("sdk_overhead_ms", "create and first output, our Python SDK above plain HTTP", "ms", 5.0),
    at_most("sdk_vs_published", "the same, our Python SDK compared with the published one", "×", 1.0),
    at_most("sdk_import_ms", "import of the Python SDK", "ms", 120.0),
    at_most("sdk_ws_overhead_ms", "a command over a socket, our TypeScript SDK above plain frames", "ms", 1.0),
    at_most("cli_start_ms", "`pandastack --version`", "ms", 15.0),
    at_most("exec_true_ms_p50", "run `true`", "ms", 25.0),
    at_most("ws_exec_ms_p50", "run `true` over an open WebSocket", "ms", 28.0),
    at_most("ws_exec_over_agent_ms_p50", "of that, spent outside the guest", "ms", 3.0),
    at_most("ping_ms_p50", "round trip to the guest agent", "ms", 1.5),
    at_most("fork_ms_p50", "fork with 24 MB changed", "ms", 150.0),
    at_most("fork_pause_ms_p50", "pause of the source during a fork", "ms", 20.0),
    at_most("fork_tree10_ms", "fork into ten children", "ms", 1200.0),
    at_most("hibernate_ms_p50", "hibernate with 50 MB changed", "ms", 400.0),
    at_most("wake_ms_p50", "wake and first request", "ms", 90.0),
    at_most("pss_idle_mb", "memory of an idle sandbox", "MB", 45.0),
    at_most("pss_child_mb", "memory of a forked child", "MB", 45.0),
    at_most("server_rss_mb", "memory of the server, four slow 1 GB downloads", "MB", 150.0),
    at_least("api_get_rps", "GET of one sandbox", "requests/s", 8000.0),
    at_most("auth_overhead_pct", "cost of authentication in a request", "%", 15.0),
    at_most("login_ms_p50", "login with a password", "ms", 150.0),
    at_most("bill_query_ms", "bill of a month over 1,000,000 rows of usage", "ms", 50.0),
    at_most("list_1m_ms", "list of 100 of 1,000,000 sandboxes", "ms", 15.0),
    at_least("fairness_min_share", "smallest share of 100 workspaces that create at once", "", 0.5),
    at_most("dash_lcp_ms", "first load of the dashboard's list, largest paint", "ms", 800.0),
    at_most("dash_initial_kb", "JavaScript of that page, compressed", "kB", 220.0),
    at_most("dash_event_ms", "a change of state until the list shows it", "ms", 300.0),
    at_most("dash_scroll_ms", "frames while 10,000 sandboxes are scrolled, p95", "ms", 50.0),
    at_most("dash_echo_ms", "echo of a key in the terminal, above a round trip to the agent", "ms", 40.0),
    at_most("dash_packed_mb", "size of the dashboard in the binary", "MB", 3.0),
    at_most("client_mb", "size of the client alone", "MB", 10.0),
    at_most("db_create_share", "new database until its first row, in (1.5 × a cold create + 400 ms)", "×", 1.0),
    at_most("db_first_ratio", "first database of a new server until its first row, compared with the second", "×", 2.0),
    at_most("db_wake_share", "sleeping database until its first row, in (2 × a wake + 150 ms)", "×", 1.0),
    at_most("db_branch_share", "branch of 200 MB under load until its first row, in (2.5 × a fork)", "×", 1.0),
    at_most("db_branch_pause_share", "pause of its source, in (1.5 × that of a fork)", "×", 1.0),
    at_most("db_branch_growth", "branch of a database of 500 MB, compared with one of 50 MB", "×", 1.2),
    at_most("db_proxy_overhead_ms", "round trip through the proxy of databases, above one without it", "ms", 1.0),
    at_least("db_proxy_mb_s", "rows through that proxy by TLS", "MB/s", 300.0),
    at_most("db_broker_overhead_ms", "a query over HTTP above one over TLS", "ms", 3.0),
];
