//! Limits of a Dockerfile. The reference page is docs/limits.md.

/// Bytes of the file itself.
pub const DOCKERFILE_BYTES_MAX: usize = 256 * 1024;
/// Steps of one Dockerfile, and characters of a step that are shown.
pub const BUILD_STEPS_MAX: usize = 200;
pub const STEP_TEXT_SHOWN_MAX: usize = 160;

/// Bytes of all texts of one Dockerfile after expansion. Several times the largest file.
pub const DOCKERFILE_EXPANDED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Sources of all `COPY` and `ADD` of one Dockerfile, and memory for the names of the files that
/// they match.
pub const DOCKERFILE_SOURCES_MAX: usize = 2000;
pub const DOCKERFILE_PLACED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a path in a machine, of a user, and of the words of `SHELL`.
pub const DOCKERFILE_PATH_BYTES_MAX: usize = 4095;
pub const DOCKERFILE_USER_BYTES_MAX: usize = 256;
pub const DOCKERFILE_SHELL_BYTES_MAX: usize = 4096;

/// Number and bytes of variables (arguments and environment), and number of declared ports. The
/// same as for a sandbox.
pub const VARIABLES_MAX: usize = 256;
pub const VARIABLE_BYTES_MAX: usize = 128 * 1024;
pub const PORTS_MAX: usize = 32;

/// Bytes of a path in the context.
pub const CONTEXT_PATH_BYTES_MAX: usize = 1024;
/// Bytes and patterns of a `.dockerignore`.
pub const IGNORE_BYTES_MAX: usize = 64 * 1024;
pub const IGNORE_PATTERNS_MAX: usize = 500;
