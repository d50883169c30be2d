//! The states of what was put aside, and the one function that handles every pair of state and
//! request.
//!
//! ```text
//! Found --> Kept --> Adopting --> Adopted --> (in a workspace)
//!   every state before Adopted --> Removing --> (gone)
//! ```

use pandastack_wire_fleet::WorkspaceId;

/// State of something that the host has and the database never knew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanState {
    /// Recorded. Its machine may still run.
    Found,
    /// It rests, until it expires or an operator decides.
    Kept,
    /// An operator gives it to a workspace. It has no row there yet.
    Adopting(NewOwner),
    /// It has a row in the workspace. The rest of the adoption may be missing.
    Adopted(NewOwner),
    /// It is being removed.
    Removing(RemovalCause),
}

/// The workspace that gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOwner {
    pub workspace: WorkspaceId,
    /// Name of a volume there. `None`: one is made from its id.
    pub name: Option<String>,
}

/// Why something is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalCause {
    Request,
    Expiry,
}

/// A request to something that was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanRequest {
    /// Its machine rests.
    Rest,
    Adopt(NewOwner),
    /// It has a row in its workspace.
    Enter,
    /// Remove it, as an operator wants.
    Delete,
    /// Remove it, because its time is over.
    Expire,
    /// The last request cannot be carried out.
    GiveUp,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanRefusal {
    /// It is being adopted.
    Adopting,
    /// It is being removed.
    Removing,
    /// The request does not follow from the state. Only a bug sends it.
    Unexpected,
}

/// Decides the state after a request.
pub fn step(now: &OrphanState, ask: OrphanRequest) -> Result<OrphanState, OrphanRefusal> {
    use OrphanRequest::{Adopt, Delete, Enter, Expire, GiveUp, Rest};
    use OrphanState::{Adopted, Adopting, Found, Kept, Removing};
    match (now, ask) {
        (Found | Kept, Rest) => Ok(Kept),
        (Adopting(_) | Adopted(_) | Removing(_), Rest) => Ok(now.clone()),
        (Found | Kept, Adopt(owner)) => Ok(Adopting(owner)),
        (Adopting(known) | Adopted(known), Adopt(owner)) if *known == owner => Ok(now.clone()),
        (Adopting(_) | Adopted(_), Adopt(_) | Delete) => Err(OrphanRefusal::Adopting),
        // Its new owner may use it already.
        (Adopting(_) | Adopted(_), Expire) => Ok(now.clone()),
        (Adopting(owner) | Adopted(owner), Enter) => Ok(Adopted(owner.clone())),
        (Found | Kept, Delete) => Ok(Removing(RemovalCause::Request)),
        (Found | Kept, Expire) => Ok(Removing(RemovalCause::Expiry)),
        (Removing(_), Delete | Expire) => Ok(now.clone()),
        (Removing(_), Adopt(_)) => Err(OrphanRefusal::Removing),
        // The machine may have run again meanwhile.
        (Adopting(_) | Removing(_), GiveUp) => Ok(Found),
        (Found | Kept | Removing(_), Enter) | (Found | Kept | Adopted(_), GiveUp) => Err(OrphanRefusal::Unexpected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> NewOwner {
        NewOwner { workspace: WorkspaceId(name.to_owned()), name: None }
    }

    fn states() -> [OrphanState; 6] {
        use OrphanState::{Adopted, Adopting, Found, Kept, Removing};
        let [request, expiry] = [RemovalCause::Request, RemovalCause::Expiry];
        [Found, Kept, Adopting(owner("a")), Adopted(owner("a")), Removing(request), Removing(expiry)]
    }

    #[test]
    fn only_what_rests_is_removed() {
        for state in states() {
            let after = step(&state, OrphanRequest::Expire).unwrap();
            let is_free = matches!(state, OrphanState::Found | OrphanState::Kept);
            let expected = if is_free { OrphanState::Removing(RemovalCause::Expiry) } else { state };
            assert_eq!(after, expected);
        }
    }

    #[test]
    fn one_workspace_gets_it() {
        for state in states() {
            let (same, other) = (owner("a"), owner("b"));
            let same =
                step(&state, OrphanRequest::Adopt(same.clone())).map(|after| after == OrphanState::Adopting(same));
            let other = step(&state, OrphanRequest::Adopt(other));
            match state {
                OrphanState::Found | OrphanState::Kept => assert!(same.unwrap() && other.is_ok()),
                OrphanState::Adopting(_) | OrphanState::Adopted(_) => {
                    assert!(same.is_ok() && other == Err(OrphanRefusal::Adopting), "{state:?}");
                }
                OrphanState::Removing(_) => assert!(same == Err(OrphanRefusal::Removing) && other.is_err()),
            }
        }
    }

    #[test]
    fn every_request_may_arrive_twice() {
        let asks = [
            OrphanRequest::Rest,
            OrphanRequest::Adopt(owner("a")),
            OrphanRequest::Enter,
            OrphanRequest::Delete,
            OrphanRequest::Expire,
        ];
        for (state, ask) in states().iter().flat_map(|state| asks.iter().map(move |ask| (state, ask))) {
            if let Ok(after) = step(state, ask.clone()) {
                assert_eq!(step(&after, ask.clone()), Ok(after.clone()), "{state:?} {ask:?}");
            }
        }
    }

    #[test]
    fn what_was_given_up_rests_again_and_an_adopted_one_stays() {
        for state in states() {
            let after = step(&state, OrphanRequest::GiveUp);
            match state {
                OrphanState::Adopting(_) | OrphanState::Removing(_) => assert_eq!(after, Ok(OrphanState::Found)),
                _ => assert_eq!(after, Err(OrphanRefusal::Unexpected), "{state:?}"),
            }
        }
    }
}
