//! A limited number of places, shared by workspaces. A workspace that has its share is refused
//! while others are still served.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pandastack_model::{Fault, FaultKind, ShareRefusal, Shares};
use pandastack_wire_fleet::WorkspaceId;
use tokio::sync::Notify;

/// The kind of place, and the error codes of a refusal.
#[derive(Clone, Copy, Debug)]
pub struct PlaceKind {
    /// Name of the places, as in "768 open sockets".
    pub name: &'static str,
    /// Error code if the workspace has its share.
    pub quota: &'static str,
    /// Error code if all places are taken.
    pub full: &'static str,
}

/// All places of one kind. Clones share the same state.
#[derive(Clone)]
pub struct Places(Arc<PlaceTable>);

struct PlaceTable {
    counted: PlaceKind,
    total: u64,
    shares: Mutex<Shares<PlaceHolder>>,
    one_free: Notify,
}

/// Who has a share of the places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PlaceHolder {
    Workspace(WorkspaceId),
    /// All unknown callers together.
    Unknown,
    /// The callers of one thing with a share of its own.
    Named(Box<str>),
}

impl PlaceHolder {
    fn of(workspace: Option<&WorkspaceId>) -> Self {
        workspace.map_or(Self::Unknown, |workspace| Self::Workspace(workspace.clone()))
    }
}

impl Places {
    /// Makes this many places.
    pub fn new(counted: PlaceKind, total: usize) -> Self {
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        Self(Arc::new(PlaceTable { counted, total, shares: Mutex::default(), one_free: Notify::new() }))
    }

    /// Gives a workspace a place until it is dropped. All unknown callers share one part.
    pub fn take(&self, workspace: Option<&WorkspaceId>) -> Result<Place, Fault> {
        let holder = PlaceHolder::of(workspace);
        match self.shares().take(&holder, 1, self.0.total) {
            Ok(()) => Ok(Place { places: self.clone(), holder }),
            Err(refused) => Err(self.fault(&holder, refused)),
        }
    }

    /// Gives the callers of one thing a place. They have a share of their own, and at most `most`
    /// places. The caller of this has checked that the thing exists: whoever makes up names would
    /// get all places.
    pub fn take_apart(&self, name: &str, most: u64) -> Result<Place, Fault> {
        let holder = PlaceHolder::Named(name.into());
        let taken = {
            let mut shares = self.shares();
            let held = shares.held(&holder);
            let is_full = held >= most;
            if is_full { Err(ShareRefusal::Share { held, most }) } else { shares.take(&holder, 1, self.0.total) }
        };
        taken.map_err(|refused| self.fault(&holder, refused))?;
        Ok(Place { places: self.clone(), holder })
    }

    /// Gives a workspace a place, unless its plan allows no more.
    pub fn take_within(&self, workspace: &WorkspaceId, plan_max: Option<u64>) -> Result<Place, Fault> {
        let held = self.shares().held(&PlaceHolder::of(Some(workspace)));
        match plan_max.filter(|most| held >= *most) {
            None => self.take(Some(workspace)),
            Some(most) => {
                let name = self.0.counted.name;
                let text = format!("quota exceeded: the plan allows {most} {name}; wait until one has ended");
                Err(Fault::new(FaultKind::Quota, "quota.plan_connections", text))
            }
        }
    }

    /// Waits until the workspace gets a place.
    pub async fn wait(&self, workspace: &WorkspaceId) -> Place {
        let holder = PlaceHolder::of(Some(workspace));
        loop {
            let mut one_free = std::pin::pin!(self.0.one_free.notified());
            // Registered before the check, so that a place freed in between is not missed.
            one_free.as_mut().enable();
            if self.shares().take(&holder, 1, self.0.total).is_ok() {
                return Place { places: self.clone(), holder };
            }
            one_free.await;
        }
    }

    fn fault(&self, holder: &PlaceHolder, refused: ShareRefusal) -> Fault {
        let PlaceKind { name, quota, full } = self.0.counted;
        match (refused, holder) {
            (ShareRefusal::Share { held, .. }, PlaceHolder::Unknown) => {
                let text =
                    format!("callers without an API key already have their share of {held} {name}; try again later");
                Fault::new(FaultKind::Busy, full, text)
            }
            (ShareRefusal::Share { held, most }, PlaceHolder::Workspace(_)) => {
                let text = format!(
                    "this workspace has {held} {name}, and its share is now {most}; end one that is no longer needed, \
                     or try again later"
                );
                Fault::new(FaultKind::Quota, quota, text)
            }
            (ShareRefusal::Share { held, most }, PlaceHolder::Named(thing)) => {
                let text = format!("{thing}: {held} {name}, and the share is now {most}; try again when one has ended");
                Fault::new(FaultKind::Quota, quota, text)
            }
            (ShareRefusal::Full { total }, _) => Fault::new(
                FaultKind::Busy,
                full,
                format!("the server's limit of {total} {name} is reached; try again later"),
            ),
        }
    }

    fn shares(&self) -> MutexGuard<'_, Shares<PlaceHolder>> {
        // Every change is one step, so a panic cannot have left it inconsistent.
        self.0.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One place. It is freed on drop.
pub struct Place {
    places: Places,
    holder: PlaceHolder,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.shares().give_back(&self.holder, 1);
        self.places.0.one_free.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn places(total: usize) -> Places {
        Places::new(PlaceKind { name: "open doors", quota: "quota.doors", full: "door.too_many" }, total)
    }

    fn workspace(name: &str) -> WorkspaceId {
        WorkspaceId(name.to_owned())
    }

    #[test]
    fn a_workspace_at_its_share_is_refused_while_others_are_served() {
        let (places, [a, b]) = (places(8), ["a", "b"].map(workspace));
        let _held: Vec<_> = std::iter::from_fn(|| places.take(Some(&a)).ok()).collect();
        let fault = places.take(Some(&a)).err().unwrap();
        assert_eq!((fault.kind, fault.code), (FaultKind::Quota, "quota.doors"));
        assert!(fault.text.contains("6 open doors"), "{}", fault.text);
        let _other = places.take(Some(&b)).unwrap();
        let _nobody = places.take(None).unwrap();
        let fault = places.take(Some(&workspace("c"))).err().unwrap();
        assert_eq!((fault.kind, fault.code), (FaultKind::Busy, "door.too_many"));
    }

    #[test]
    fn callers_who_are_not_known_have_one_share_together() {
        let places = places(8);
        let held: Vec<_> = std::iter::from_fn(|| places.take(None).ok()).collect();
        assert_eq!(held.len(), 6);
        assert_eq!(places.take(None).err().unwrap().code, "door.too_many", "no workspace is to blame");
        assert!(places.take(Some(&workspace("a"))).is_ok());
    }

    #[test]
    fn a_named_thing_has_a_share_of_its_own_and_a_limit() {
        let places = places(16);
        let held: Vec<_> = std::iter::from_fn(|| places.take_apart("database a", 3).ok()).collect();
        assert_eq!(held.len(), 3);
        let fault = places.take_apart("database a", 3).err().unwrap();
        assert_eq!((fault.kind, fault.code), (FaultKind::Quota, "quota.doors"));
        assert!(fault.text.starts_with("database a: 3 open doors"), "{}", fault.text);
        let _others = [places.take_apart("database b", 3).unwrap(), places.take(None).unwrap()];
        drop(held);
        assert!(places.take_apart("database a", 3).is_ok());
        // Its limit is no right to so many: the share counts too.
        let many: Vec<_> = std::iter::from_fn(|| places.take_apart("database c", 99).ok()).collect();
        assert_eq!(many.len(), 10, "three quarters of the fourteen that were left");
        assert_eq!(places.take_apart("database c", 99).err().unwrap().code, "quota.doors");
        assert!(places.take(Some(&workspace("a"))).is_ok());
    }

    #[test]
    fn a_place_that_falls_free_is_given_to_who_waits() {
        let (places, [a, b]) = (places(3), ["a", "b"].map(workspace));
        let [first, _second] = [(); 2].map(|()| places.take(Some(&a)).unwrap());
        let mut third = Box::pin(places.wait(&a));
        assert!(third.as_mut().now_or_never().is_none());
        assert!(places.wait(&b).now_or_never().is_some(), "another workspace does not wait");
        drop(first);
        assert!(third.now_or_never().is_some());
    }
}
