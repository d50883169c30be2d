//! Finds a sandbox's family among all sandboxes of its workspace.

use std::collections::{HashMap, HashSet};

use pandastack_model::SandboxId;

use crate::store::FamilyMember;

/// Returns the family from its oldest known member down, parents before their children. Returns
/// `None` if the sandbox is unknown.
pub fn family(everybody: Vec<FamilyMember>, id: SandboxId) -> Option<Vec<FamilyMember>> {
    let mut known: HashMap<SandboxId, FamilyMember> = everybody.iter().map(|one| (one.id, one.clone())).collect();
    let mut children: HashMap<SandboxId, Vec<SandboxId>> = HashMap::new();
    for one in &everybody {
        if let Some(parent) = one.parent {
            children.entry(parent).or_default().push(one.id);
        }
    }
    let root = oldest(&known, id)?;
    let (mut order, mut waiting) = (Vec::new(), vec![root]);
    while let Some(next) = waiting.pop() {
        // Remove each member, so that damaged rows that name each other do not loop forever.
        let Some(one) = known.remove(&next) else { continue };
        order.push(one);
        waiting.extend(children.remove(&next).unwrap_or_default().into_iter().rev());
    }
    Some(order)
}

fn oldest(known: &HashMap<SandboxId, FamilyMember>, id: SandboxId) -> Option<SandboxId> {
    let (mut at, mut met) = (known.get(&id)?, HashSet::from([id]));
    while let Some(parent) = at.parent.and_then(|parent| known.get(&parent)) {
        if !met.insert(parent.id) {
            break;
        }
        at = parent;
    }
    Some(at.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: SandboxId, parent: Option<SandboxId>) -> FamilyMember {
        FamilyMember {
            id,
            parent,
            status: "running".into(),
            template: "base".into(),
            created_at_ns: 0,
            name: None,
            size: None,
            tree: None,
            index: None,
        }
    }

    fn ids(family: Option<Vec<FamilyMember>>) -> Vec<SandboxId> {
        family.unwrap().into_iter().map(|one| one.id).collect()
    }

    #[test]
    fn a_family_is_walked_from_the_top_and_strangers_stay_out() {
        let [a, b, c, d, stranger] = std::array::from_fn(|_| SandboxId::random());
        let everybody =
            vec![member(a, None), member(b, Some(a)), member(c, Some(a)), member(d, Some(b)), member(stranger, None)];
        assert_eq!(ids(family(everybody.clone(), d)), [a, b, d, c]);
        assert_eq!(ids(family(everybody.clone(), stranger)), [stranger]);
        assert_eq!(family(everybody, SandboxId::random()), None);
    }

    #[test]
    fn an_unknown_parent_is_where_knowledge_ends() {
        let [a, b] = std::array::from_fn(|_| SandboxId::random());
        assert_eq!(ids(family(vec![member(b, Some(a))], b)), [b]);
    }

    #[test]
    fn a_circle_ends() {
        let [a, b] = std::array::from_fn(|_| SandboxId::random());
        assert_eq!(ids(family(vec![member(a, Some(b)), member(b, Some(a))], a)).len(), 2);
    }
}
