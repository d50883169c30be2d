//! The published clients, unchanged, against our server with real machines: the acceptance checks
//! of the API contract, item by item. Each check is a function of `checks.py`, `checks.mjs`,
//! `checks_cli.py` or `checks_mcp.py`, and has its own server. The clients are pinned and cached.

mod clients;

use clients::{Client, Serve};

/// Makes one test per check.
macro_rules! checks {
    ($client:expr; $($check:ident $(with $serve:expr)?,)*) => {
        $(
            #[test]
            fn $check() {
                #[allow(unused_mut, unused_assignments, reason = "most checks have the usual server")]
                let mut serve = super::Serve::default();
                $(serve = $serve;)?
                $client.check(stringify!($check), &serve);
            }
        )*
    };
}

/// What every Python client must do.
macro_rules! python_checks {
    ($client:expr) => {
        checks! { $client;
            create_without_arguments,
            streams_keep_text_whole_and_come_at_once,
            a_machine_killed_under_a_stream_is_an_error,
            timeouts_are_sandbox_timeouts,
            a_full_host_is_retried_until_there_is_room with Serve::little_memory(),
            a_quota_is_told_at_once with Serve::with(&["--max-sandboxes", "1"]),
            forks_have_memory_and_trees_are_promoted,
            explore_finds_and_keeps_the_best,
            sleep_is_seen_and_use_wakes,
            a_persistent_sandbox_outlives_its_with_block,
            code_contexts_keep_state_and_give_rich_results,
            files_round_trip,
            templates_are_built_from_dockerfiles,
            snapshots_are_listed_by_sandbox,
            previews_need_no_key_and_wake,
            volumes_outlive_sandboxes_and_have_one_writer,
            the_managed_agents_worker_finds_what_it_needs,
            a_person_manages_keys,
        }
    };
}

/// What every TypeScript client must do.
macro_rules! typescript_checks {
    ($client:expr) => {
        checks! { $client;
            create_without_arguments,
            streams_keep_text_whole_and_come_at_once,
            a_machine_killed_under_a_stream_is_an_error,
            timeouts_are_sandbox_timeouts,
            a_quota_is_told_at_once with Serve::with(&["--max-sandboxes", "1"]),
            forks_have_memory_and_trees_are_promoted,
            explore_finds_and_keeps_the_best,
            sleep_is_seen_and_use_wakes,
            code_contexts_keep_state_and_give_rich_results,
            files_round_trip,
            templates_are_built_from_dockerfiles,
            snapshots_are_listed_by_sandbox,
            logs_follow_and_stand_idleness,
            previews_need_no_key_and_wake,
            volumes_outlive_sandboxes_and_have_one_writer,
            a_person_manages_keys,
        }
    };
}

mod python {
    use super::{Client, Serve};

    python_checks! { Client::Python }

    /// Silent for longer than a client waits: one client is enough.
    mod deep {
        use super::Client;

        checks! { Client::Python; logs_follow_and_stand_idleness, }
    }
}

/// Our own SDK passes what the published one passes.
mod own_python {
    use super::{Client, Serve};

    python_checks! { Client::OwnPython }
}

mod typescript {
    use super::{Client, Serve};

    typescript_checks! { Client::TypeScript }
}

mod own_typescript {
    use super::{Client, Serve};

    typescript_checks! { Client::OwnTypeScript }
}

mod command_line {
    use super::Client;

    checks! { Client::CommandLine;
        sandbox_commands,
        fork_commands,
        file_and_snapshot_commands,
        template_commands,
        token_commands,
        ssh_is_a_terminal_that_follows_its_window,
    }
}

mod tools {
    use super::Client;

    checks! { Client::Tools;
        a_sandbox_is_a_set_of_tools,
    }
}
