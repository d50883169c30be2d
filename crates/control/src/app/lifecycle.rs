//! Shows and changes the idle limit of a sandbox. Reading it is not activity: it neither wakes the
//! sandbox nor resets its idle time.

use std::time::Duration;

use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::LifecycleChange;

use crate::{Control, limits::CHANGE_MAX, store::IdleLimit};

impl Control {
    /// Returns the idle limit, and how long the sandbox has been idle.
    pub(crate) async fn lifecycle(&self, caller: &Caller, id: SandboxId) -> Result<(IdleLimit, Duration), Fault> {
        let intent = self.store.find(&caller.workspace, id).await?.ok_or_else(Fault::no_sandbox)?;
        let idle = self.host.observe(id).await.map_or(Duration::ZERO, |seen| seen.idle);
        let limit = IdleLimit { ttl_seconds: intent.spec.ttl_seconds, persistent: intent.spec.persistent };
        Ok((limit, idle))
    }

    /// Changes the idle limit. Fields that the change does not name keep their values.
    pub(crate) async fn set_lifecycle(
        &self,
        caller: &Caller,
        id: SandboxId,
        change: LifecycleChange,
    ) -> Result<(IdleLimit, Duration), Fault> {
        self.need_host()?;
        self.reachable(caller, id).await?;
        if let Some(ttl_seconds) = change.ttl_seconds {
            self.check_ttl(&caller.workspace, ttl_seconds).await?;
        }
        let (limit, _) = self.lifecycle(caller, id).await?;
        let limit = IdleLimit {
            ttl_seconds: change.ttl_seconds.unwrap_or(limit.ttl_seconds),
            persistent: change.persistent.unwrap_or(limit.persistent),
        };
        let control = self.clone();
        let work = async move { control.change_idle_limit(id, limit).await };
        let idle = self.in_time("lifecycle", CHANGE_MAX, work).await?;
        Ok((limit, idle))
    }
}
