//! Routes that remember their paths. A router cannot list its paths, and the API document is
//! compared with them.

use axum::{Router, routing::MethodRouter};

/// A router with the list of its paths.
pub struct Routes<S> {
    router: Router<S>,
    paths: Vec<&'static str>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Creates an empty set of routes.
    #[allow(clippy::new_without_default, reason = "made in one place of each door, by name")]
    pub fn new() -> Self {
        Self { router: Router::new(), paths: Vec::new() }
    }

    /// Adds a path with its methods.
    pub fn route(mut self, path: &'static str, methods: MethodRouter<S>) -> Self {
        self.paths.push(path);
        Self { router: self.router.route(path, methods), paths: self.paths }
    }

    /// Returns the paths in the order in which they were added.
    pub fn paths(&self) -> &[&'static str] {
        &self.paths
    }

    /// Returns the router.
    pub fn into_router(self) -> Router<S> {
        self.router
    }
}
