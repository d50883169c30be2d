//! Why a build failed, in words for its owner.

use pandastack_model::{Fault, FaultKind};

use super::dockerfile::DockerfileError;
use crate::store::StoreError;

/// A failed build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Says at which step it happened.
    pub fn at(self, step: &str) -> Self {
        Self(format!("{step} failed: {}", self.0))
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        if fault.kind == FaultKind::Bug {
            tracing::error!("a build failed: {fault}");
        }
        Self(fault.text)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Fault::from(error).into()
    }
}

impl From<DockerfileError> for Failure {
    fn from(error: DockerfileError) -> Self {
        Self(format!("{error} ({})", error.code()))
    }
}
