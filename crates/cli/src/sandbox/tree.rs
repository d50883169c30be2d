//! `pandastack sandbox tree`

use std::{
    collections::{HashMap, HashSet},
    io::IsTerminal,
    process::ExitCode,
};

use clap_complete::ArgValueCompleter;
use pandastack_client::{
    Client, ClientError,
    wire::{FamilyTree, TreeNode},
};

use crate::{GlobalArgs, advice::advise, colour, complete, connect::connect, find::FoundKind, output};

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
        eprintln!("no sandboxes; create one with: pandastack sandbox create");
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
    let mut children: HashMap<&str, Vec<&TreeNode>> = HashMap::new();
    for node in &tree.nodes {
        children.entry(node.parent_id.as_deref().unwrap_or("")).or_default().push(node);
    }
    let mut text = String::new();
    // A stack of nodes, each with the prefix of its line and the prefix of its children's lines.
    // A loop instead of recursion, because families may be very deep.
    let roots = children.remove("").unwrap_or_default();
    let mut waiting: Vec<(&TreeNode, String, String)> =
        roots.into_iter().rev().map(|node| (node, String::new(), String::new())).collect();
    while let Some((node, before, below)) = waiting.pop() {
        text.push_str(&format!("{before}{}\n", line(node, &tree.sandbox_id)));
        let own = children.remove(node.id.as_str()).unwrap_or_default();
        for (from_last, child) in own.into_iter().rev().enumerate() {
            let (branch, rest) = if from_last == 0 { ("└── ", "    ") } else { ("├── ", "│   ") };
            waiting.push((child, format!("{below}{branch}"), format!("{below}{rest}")));
        }
    }
    text
}

fn line(node: &TreeNode, asked: &str) -> String {
    let mark = match node.status.as_str() {
        "running" => '●',
        "paused" => '◐',
        "hibernated" => '○',
        "failed" => '✗',
        "deleted" => '·',
        _ => '◌',
    };
    let this = if node.id == asked { "  ← this one" } else { "" };
    let is_coloured = colour::is_wanted(std::io::stdout().is_terminal());
    let status = if is_coloured { colour::state(&node.status) } else { node.status.clone() };
    format!("{mark} {}  {status}{this}", node.id)
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
