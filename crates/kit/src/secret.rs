//! A value that must not be printed.

/// Wraps a secret: it has no `Debug` and no `Display`, so it cannot reach a log by accident.
#[derive(Clone)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value. Call it only where the plain value is needed.
    pub const fn reveal(&self) -> &T {
        &self.0
    }
}
