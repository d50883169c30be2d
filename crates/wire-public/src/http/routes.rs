//! Routes that remember their paths. A router cannot be asked what it has, and the document of the
//! API must know.

use axum::{Router, routing::MethodRouter};

/// A router in the making.
pub struct Routes<S> {
    router: Router<S>,
    paths: Vec<&'static str>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Begins without routes.
    #[allow(clippy::new_without_default, reason = "made in one place of each door, by name")]
    pub fn new() -> Self {
        Self { router: Router::new(), paths: Vec::new() }
    }

    /// Adds a path with its methods.
    pub fn route(mut self, path: &'static str, methods: MethodRouter<S>) -> Self {
        self.paths.push(path);
        Self { router: self.router.route(path, methods), paths: self.paths }
    }

    /// Gives the paths in the order in which they were added.
    pub fn paths(&self) -> &[&'static str] {
        &self.paths
    }

    /// Gives the router.
    pub fn into_router(self) -> Router<S> {
        self.router
    }
}
