const base = await client.sandboxes.create({ template: "nextjs" });
await base.exec("git checkout -b agent/search");
const tree = await base.forkTree(4);
const results = await Promise.all(tree.branches.map(runEval));
await tree.promote(results.at(0).sandboxId, { cleanupSiblings: true });
