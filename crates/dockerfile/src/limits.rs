//! What a Dockerfile may ask for. The reference page is docs/limits.md.

/// The file itself.
pub const DOCKERFILE_BYTES_MAX: usize = 256 * 1024;
/// Steps of one Dockerfile, and how much of one is shown.
pub const BUILD_STEPS_MAX: usize = 200;
pub const STEP_TEXT_SHOWN_MAX: usize = 160;

/// All texts of one Dockerfile together, once their variables are replaced. Several times the
/// largest file.
pub const DOCKERFILE_EXPANDED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Sources of all `COPY` and `ADD` of one Dockerfile, and memory for the names of the files that
/// they mean.
pub const DOCKERFILE_SOURCES_MAX: usize = 2000;
pub const DOCKERFILE_PLACED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A path in a machine, the user of commands, and the words of `SHELL`.
pub const DOCKERFILE_PATH_BYTES_MAX: usize = 4095;
pub const DOCKERFILE_USER_BYTES_MAX: usize = 256;
pub const DOCKERFILE_SHELL_BYTES_MAX: usize = 4096;

/// Variables (arguments and environment) and their bytes, and the ports that are declared. The same
/// as of a sandbox.
pub const VARIABLES_MAX: usize = 256;
pub const VARIABLE_BYTES_MAX: usize = 128 * 1024;
pub const PORTS_MAX: usize = 32;

/// The path of a file that came with a build.
pub const CONTEXT_PATH_BYTES_MAX: usize = 1024;
/// A `.dockerignore`: its bytes and patterns.
pub const IGNORE_BYTES_MAX: usize = 64 * 1024;
pub const IGNORE_PATTERNS_MAX: usize = 500;
