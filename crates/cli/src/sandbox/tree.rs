//! `pandastack sandbox tree`

use std::{collections::HashSet, io::IsTerminal, process::ExitCode};

use clap_complete::ArgValueCompleter;
use pandastack_client::{
    Client, ClientError,
    wire::{FamilyTree, TreeNode},
};

use crate::{
    GlobalArgs,
    advice::advise,
    colour, complete,
    connect::connect,
    find::FoundKind,
    output,
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
    format!("{} {}  {status}{this}", tree_picture::mark(&node.status), node.id)
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
        }
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
· a  deleted
├── ● b  running
│   ├── ◐ d  paused  ← this one
│   └── ✗ e  failed
└── ○ c  hibernated
    └── ◌ f  waking
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
