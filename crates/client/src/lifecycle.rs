//! Pause, resume, hibernate, wake, idle limit and egress of a sandbox.

use pandastack_wire_public::{EgressList, Lifecycle, SetLifecycle, Status};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Stops a sandbox's CPUs. Its memory is kept.
    pub async fn pause(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::POST, &["sandboxes", id, "pause"])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Lets the CPUs of a paused sandbox run again.
    pub async fn resume(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::POST, &["sandboxes", id, "resume"])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Puts a sandbox to sleep. The next use wakes it.
    pub async fn hibernate(&self, id: &str) -> Result<Status, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "hibernate"])?.timeout(ANSWER_MAX)).await
    }

    /// Wakes a sandbox. It may already be awake.
    pub async fn wake(&self, id: &str) -> Result<Status, ClientError> {
        self.json(self.request(Method::POST, &["sandboxes", id, "wake"])?.timeout(ANSWER_MAX)).await
    }

    /// Shows the idle limit, and how long the sandbox has been idle.
    pub async fn lifecycle(&self, id: &str) -> Result<Lifecycle, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes", id, "lifecycle"])?.timeout(ANSWER_MAX)).await
    }

    /// Changes the idle limit. Missing fields keep their value.
    pub async fn set_lifecycle(&self, id: &str, change: &SetLifecycle) -> Result<Lifecycle, ClientError> {
        let request = self.request(Method::PATCH, &["sandboxes", id, "lifecycle"])?;
        self.json(request.timeout(ANSWER_MAX).json(change)).await
    }

    /// Shows what a sandbox may reach.
    pub async fn egress(&self, id: &str) -> Result<EgressList, ClientError> {
        self.json(self.request(Method::GET, &["sandboxes", id, "egress"])?.timeout(ANSWER_MAX)).await
    }

    /// Changes at once what a sandbox may reach. No list means no limit; an empty list allows
    /// nothing.
    pub async fn set_egress(&self, id: &str, list: &EgressList) -> Result<EgressList, ClientError> {
        self.json(self.request(Method::PUT, &["sandboxes", id, "egress"])?.timeout(ANSWER_MAX).json(list)).await
    }
}
