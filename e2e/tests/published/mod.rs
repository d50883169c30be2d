//! The published clients, unchanged, against our server with real machines: the acceptance checks
//! of the API contract, item by item. Each check is a function of `checks.py`, `checks.mjs`,
//! `checks_cli.py` or `checks_mcp.py`, and finds no sandbox of another. The clients are pinned and
//! cached.

mod clients;

use clients::{Client, Serve};

/// Makes tests of checks. Those of one test share a server.
macro_rules! checks {
    ($client:expr; $($test:ident $(with $serve:expr)? => [$($check:ident),* $(,)?],)*) => {
        $(
            #[test]
            fn $test() {
                #[allow(unused_mut, unused_assignments, reason = "most checks have the usual server")]
                let mut serve = super::Serve::default();
                $(serve = $serve;)?
                $client.check(&[$(stringify!($check)),*], &serve);
            }
        )*
    };
}

/// What every Python client must do.
macro_rules! python_checks {
    ($client:expr) => {
        checks! { $client;
            sandboxes_run_and_keep_what_is_in_them => [
                create_without_arguments,
                streams_keep_text_whole_and_come_at_once,
                a_machine_killed_under_a_stream_is_an_error,
                timeouts_are_sandbox_timeouts,
                sleep_is_seen_and_use_wakes,
                a_persistent_sandbox_outlives_its_with_block,
                code_contexts_keep_state_and_give_rich_results,
                files_round_trip,
                the_managed_agents_worker_finds_what_it_needs,
            ],
            copies_templates_previews_and_volumes => [
                forks_have_memory_and_trees_are_promoted,
                explore_finds_and_keeps_the_best,
                templates_are_built_from_dockerfiles,
                snapshots_are_listed_by_sandbox,
                previews_need_no_key_and_wake,
                volumes_outlive_sandboxes_and_have_one_writer,
            ],
            a_full_host_is_retried with Serve::little_memory() => [a_full_host_is_retried_until_there_is_room],
            a_quota_is_told_and_a_person_manages_keys with Serve::with(&["--max-sandboxes", "1"]) => [
                a_quota_is_told_at_once,
                a_person_manages_keys,
            ],
        }
    };
}

/// What every TypeScript client must do.
macro_rules! typescript_checks {
    ($client:expr) => {
        checks! { $client;
            sandboxes_run_and_keep_what_is_in_them => [
                create_without_arguments,
                streams_keep_text_whole_and_come_at_once,
                a_machine_killed_under_a_stream_is_an_error,
                timeouts_are_sandbox_timeouts,
                sleep_is_seen_and_use_wakes,
                code_contexts_keep_state_and_give_rich_results,
                files_round_trip,
                logs_follow_and_stand_idleness,
            ],
            copies_templates_previews_and_volumes => [
                forks_have_memory_and_trees_are_promoted,
                explore_finds_and_keeps_the_best,
                templates_are_built_from_dockerfiles,
                snapshots_are_listed_by_sandbox,
                previews_need_no_key_and_wake,
                volumes_outlive_sandboxes_and_have_one_writer,
            ],
            a_quota_is_told_and_a_person_manages_keys with Serve::with(&["--max-sandboxes", "1"]) => [
                a_quota_is_told_at_once,
                a_person_manages_keys,
            ],
        }
    };
}

mod python {
    use super::{Client, Serve};

    python_checks! { Client::Python }

    /// Silent for longer than a client waits: one client is enough.
    mod deep {
        use super::Client;

        checks! { Client::Python; a_log_is_quiet_for_long => [logs_follow_and_stand_idleness], }
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
        commands_do_what_they_say => [
            sandbox_commands,
            fork_commands,
            file_and_snapshot_commands,
            template_commands,
            ssh_is_a_terminal_that_follows_its_window,
            token_commands,
        ],
    }
}

mod tools {
    use super::Client;

    checks! { Client::Tools; a_sandbox_is_a_set_of_tools => [a_sandbox_is_a_set_of_tools], }
}
