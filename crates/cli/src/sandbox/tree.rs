//! `pandastack sandbox tree`

use std::{collections::HashSet, io::IsTerminal, process::ExitCode};

use clap_complete::ArgValueCompleter;
use pandastack_client::{
    Client, ClientError,
    wire::{FamilyTree, NodeCost, TreeNode},
};

use crate::{
    GlobalArgs,
    advice::advise,
    billing::usd,
    colour, complete,
    connect::connect,
    find::FoundKind,
    output,
    snapshot::mebibytes,
    tree_picture::{self, TreeLine},
};

/// Arguments of `sandbox tree`.
#[derive(Debug, clap::Args)]
pub struct TreeArgs {
    /// Sandbox: its id, a unique start of it, or its name; by default the families of all sandboxes
    #[arg(add = ArgValueCompleter::new(complete::sandboxes))]
    id: Option<String>,
}

/// Draws the family tree of a sandbox, or all trees.
pub async fn tree(args: TreeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    if let Some(id) = &args.id {
        let id = FoundKind::Sandbox.find(&client, id).await?;
        let tree = client.tree(&id).await.map_err(advise)?;
        if global.is_structured() {
            global.print(&tree)?
        } else {
            output::line(draw(&tree).trim_end())?
        }
        return Ok(ExitCode::SUCCESS);
    }
    let trees = all_trees(&client).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&trees)?;
    } else if trees.is_empty() {
        eprintln!("no sandboxes; create one with: pandastack create");
    } else {
        output::line(trees.iter().map(draw).collect::<String>().trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the family of every sandbox, each once. Nobody asked for one of them.
async fn all_trees(client: &Client) -> Result<Vec<FamilyTree>, ClientError> {
    let (mut trees, mut seen) = (Vec::new(), HashSet::new());
    for sandbox in client.list().await? {
        if seen.contains(&sandbox.id) {
            continue;
        }
        match client.tree(&sandbox.id).await {
            Ok(tree) => {
                seen.extend(tree.nodes.iter().map(|node| node.id.clone()));
                trees.push(FamilyTree { sandbox_id: String::new(), ..tree });
            }
            // Deleted meanwhile.
            Err(error) if error.status() == Some(404) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(trees)
}

fn draw(tree: &FamilyTree) -> String {
    let line = |node: &TreeNode| TreeLine {
        id: node.id.clone(),
        parent: node.parent_id.clone(),
        text: text(node, &tree.sandbox_id),
    };
    tree_picture::draw(&tree.nodes.iter().map(line).collect::<Vec<_>>())
}

fn text(node: &TreeNode, asked: &str) -> String {
    let this = if node.id == asked { "  ← this one" } else { "" };
    let is_coloured = colour::is_wanted(std::io::stdout().is_terminal());
    let status = if is_coloured { colour::state(&node.status) } else { node.status.clone() };
    let name = node.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&node.template);
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let cost = node.cost.map(|cost| format!("  {}", cost_text(cost))).unwrap_or_default();
    format!("{} {}  {name}  {status}{cost}{this}", tree_picture::mark(&node.status), node.id)
}

/// What a node takes, and what an hour of it costs.
fn cost_text(NodeCost { cpu, memory_mb, disk_mb: _, held_bytes, usd_per_hour }: NodeCost) -> String {
    let held = held_bytes.map(|bytes| format!(" ({} held)", mebibytes(bytes))).unwrap_or_default();
    format!("{cpu} CPU, {memory_mb} MiB{held}, {}/h", usd(usd_per_hour))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, parent: Option<&str>, status: &str) -> TreeNode {
        TreeNode {
            id: id.into(),
            parent_id: parent.map(str::to_owned),
            status: status.into(),
            template: "mini".into(),
            created_at: String::new(),
            fork_tree_id: None,
            fork_index: None,
            name: None,
            cost: None,
        }
    }

    #[test]
    fn a_node_shows_its_name_and_what_it_costs() {
        let cost = NodeCost { cpu: 2, memory_mb: 512, disk_mb: 1024, held_bytes: Some(3 << 20), usd_per_hour: 0.0815 };
        let named = TreeNode { name: Some("web\u{7}".into()), cost: Some(cost), ..node("a", None, "running") };
        let asleep = NodeCost { held_bytes: None, usd_per_hour: 0.0002, ..cost };
        let child = TreeNode { cost: Some(asleep), ..node("b", Some("a"), "hibernated") };
        let tree = FamilyTree { sandbox_id: String::new(), root_id: "a".into(), nodes: vec![named, child] };
        let expected = "\
● a  web  running  2 CPU, 512 MiB (3.0 MiB held), $0.0815/h
└── ○ b  mini  hibernated  2 CPU, 512 MiB, $0.0002/h
";
        assert_eq!(draw(&tree), expected);
    }

    #[test]
    fn a_family_is_drawn_with_branches_and_states() {
        let nodes = vec![
            node("a", None, "deleted"),
            node("b", Some("a"), "running"),
            node("d", Some("b"), "paused"),
            node("e", Some("b"), "failed"),
            node("c", Some("a"), "hibernated"),
            node("f", Some("c"), "waking"),
        ];
        let tree = FamilyTree { sandbox_id: "d".into(), root_id: "a".into(), nodes };
        let expected = "\
· a  mini  deleted
├── ● b  mini  running
│   ├── ◐ d  mini  paused  ← this one
│   └── ✗ e  mini  failed
└── ○ c  mini  hibernated
    └── ◌ f  mini  waking
";
        assert_eq!(draw(&tree), expected);
    }

    #[test]
    fn a_deep_family_is_no_trouble() {
        let name = |n: usize| format!("n{n}");
        let nodes = (0..2000).map(|n| node(&name(n), (n > 0).then(|| name(n - 1)).as_deref(), "running")).collect();
        let tree = FamilyTree { sandbox_id: name(0), root_id: name(0), nodes };
        assert_eq!(draw(&tree).lines().count(), 2000);
    }
}
