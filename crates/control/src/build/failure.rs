//! The reason why a build failed, as text for its owner.

use pandastack_model::{Fault, FaultKind};

use super::{
    dockerfile::DockerfileError,
    image::{ImageReference, PullError},
};
use crate::store::StoreError;

/// A failed build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BuildFailure(pub String);

impl BuildFailure {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A failure to pull an image, with the image's name.
    pub fn of_image(reference: &ImageReference, error: PullError) -> Self {
        match error {
            PullError::Spool(cause) => Fault::bug(cause).into(),
            error => Self(format!("image {reference}: {error} ({})", error.code())),
        }
    }

    /// Adds the step at which it happened.
    pub fn at(self, step: &str) -> Self {
        Self(format!("{step} failed: {}", self.0))
    }
}

impl From<Fault> for BuildFailure {
    fn from(fault: Fault) -> Self {
        if fault.kind == FaultKind::Bug {
            tracing::error!("a build failed: {fault}");
        }
        Self(fault.text)
    }
}

impl From<StoreError> for BuildFailure {
    fn from(error: StoreError) -> Self {
        Fault::from(error).into()
    }
}

impl From<DockerfileError> for BuildFailure {
    fn from(error: DockerfileError) -> Self {
        Self(format!("{error} ({})", error.code()))
    }
}
