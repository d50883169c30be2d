//! Forks, fork trees, promotion and families.

use pandastack_wire_public::{BranchDiff, FamilyTree, Fork, ForkRequest, ForkTree, PromoteRequest, Promotion};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Makes a running copy of a sandbox, including its memory.
    pub async fn fork(&self, id: &str, ask: &ForkRequest) -> Result<Fork, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "fork"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Makes several copies that form a tree. Fewer copies than requested are still a success; the
    /// failures are under `errors`.
    pub async fn fork_tree(&self, id: &str, ask: &ForkRequest) -> Result<ForkTree, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "fork-tree"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Keeps one copy of a tree. Deletes the others if requested.
    pub async fn promote(&self, id: &str, ask: &PromoteRequest) -> Result<Promotion, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "promote"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Compares the files and processes of two sandboxes. With a path, only what is below it.
    pub async fn diff(&self, id: &str, with: &str, path: Option<&str>) -> Result<BranchDiff, ClientError> {
        let values: Vec<_> = [("with", with)].into_iter().chain(path.map(|path| ("path", path))).collect();
        let request = self.query_request(Method::GET, &["sandboxes", id, "diff"], &values)?;
        self.json(request.timeout(ANSWER_MAX)).await
    }

    /// Shows a sandbox's ancestors, siblings and descendants, parents before their children.
    pub async fn tree(&self, id: &str) -> Result<FamilyTree, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes", id, "tree"])?.timeout(ANSWER_MAX)).await
    }
}
