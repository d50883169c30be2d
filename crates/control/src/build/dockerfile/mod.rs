//! Reads Dockerfiles. What is read is checked against the language only; what it means for a machine is decided in `plan`.

mod heredoc;
mod lines;
mod parse;
mod words;

pub use parse::{
    Argument, Command, Dockerfile, Instruction, Source, Step, Taken, Transfer, TransferKind, parse, stage_called,
};
pub use words::{expand, expand_raw};

/// What is wrong with a Dockerfile, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Dockerfile line {line}: {problem}")]
pub struct DockerfileError {
    pub line: usize,
    pub problem: String,
}

impl DockerfileError {
    pub fn at(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

#[cfg(test)]
mod tests;
