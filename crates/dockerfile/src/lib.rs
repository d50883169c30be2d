//! Parses Dockerfiles and plans their steps for a machine. Pure: no files, no network, no clock,
//! and memory bounded by `limits`. Sees the names and digests of the context's files, never their
//! contents.

pub mod context;
mod heredoc;
pub mod ignore;
pub mod limits;
mod lines;
mod parse;
pub mod plan;
mod settings;
mod words;

pub use parse::{
    BuildArgument, CommandForm, CopyFrom, CopySource, Dockerfile, Instruction, StageStep, Transfer, TransferKind,
    parse, stage_called,
};
pub use settings::TemplateSettings;
pub use words::{Expander, Lookup};

use limits::DOCKERFILE_EXPANDED_BYTES_MAX;

/// A problem in a Dockerfile, and its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Dockerfile line {line}: {problem}")]
pub struct DockerfileError {
    pub line: usize,
    pub problem: InstructionProblem,
}

impl DockerfileError {
    pub fn at(line: usize, problem: impl Into<InstructionProblem>) -> Self {
        Self { line, problem: problem.into() }
    }

    /// The error code for programs.
    pub fn code(&self) -> &'static str {
        self.problem.code
    }
}

/// A problem in one instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct InstructionProblem {
    pub text: String,
    pub code: &'static str,
}

impl InstructionProblem {
    /// The expanded variables exceed the limit of one Dockerfile.
    pub fn too_large() -> Self {
        let text = format!(
            "after variable expansion the Dockerfile is larger than {DOCKERFILE_EXPANDED_BYTES_MAX} bytes; shorten \
             the values of ARG and ENV, or use them less often"
        );
        Self { text, code: "build.dockerfile_too_large" }
    }
}

impl From<String> for InstructionProblem {
    fn from(text: String) -> Self {
        Self { text, code: "build.bad_dockerfile" }
    }
}

impl From<&str> for InstructionProblem {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests;
