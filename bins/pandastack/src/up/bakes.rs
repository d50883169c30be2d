//! `pandastack up --template NAME`: bakes missing templates in the background while the server
//! serves. A template that could not be baked is reported, and not tried again.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use pandastack_control::{PendingTemplate, TemplateBakes};
use pandastack_host::bake::{BakeProgress, Recipe, builtin};
use pandastack_kit::Scope;
use pandastack_model::{TemplateName, Tier};
use pandastack_vmm_qemu::Jail;

use super::tell;
use crate::{
    bake::{BakeJob, find_agent},
    called::{called, quoted},
    data_folder::{DEFAULT_DATA_DIR, OpenedDataFolder},
};

#[derive(Args)]
pub struct TemplateBakeArgs {
    /// Built-in template to bake in the background if it is missing; may be repeated
    #[arg(long = "template", value_name = "NAME", conflicts_with = "no_host")]
    templates: Vec<String>,
}

/// Templates to bake, known to be possible as far as that can be known before.
pub struct BakePlan {
    recipes: Vec<Recipe>,
    agent: PathBuf,
}

/// How machines of bakes run: as those of sandboxes do.
#[derive(Clone, Copy)]
pub struct BakeMachines {
    pub tier: Tier,
    pub jail: Jail,
}

impl TemplateBakeArgs {
    /// Checks the names. `None` if there is nothing to bake.
    pub fn plan(&self) -> Result<Option<BakePlan>> {
        let mut recipes: Vec<Recipe> = Vec::new();
        for name in &self.templates {
            let recipe = builtin(name).with_context(|| format!("--template {name}"))?;
            if !recipes.contains(&recipe) {
                recipes.push(recipe);
            }
        }
        if recipes.is_empty() {
            return Ok(None);
        }
        let named = std::env::var_os("PANDASTACK_GUESTD").map(PathBuf::from);
        Ok(Some(BakePlan { recipes, agent: find_agent(named.as_deref())? }))
    }
}

impl BakePlan {
    /// Leaves out what the data folder has, and shows the rest on the board.
    pub fn announce(mut self, place: &OpenedDataFolder, bakes: &TemplateBakes) -> Self {
        self.recipes.retain(|recipe| place.layers.template(&recipe.name).is_err());
        for Recipe { name, aliases, cpus, memory, disk, .. } in &self.recipes {
            bakes.add(PendingTemplate {
                name: name.clone(),
                aliases: aliases.clone(),
                cpus: *cpus,
                memory_mib: memory.as_mib(),
                disk_mib: disk.as_mib(),
            });
        }
        self
    }

    /// The names of the templates to bake.
    pub fn names(&self) -> Vec<&TemplateName> {
        self.recipes.iter().map(|recipe| &recipe.name).collect()
    }

    /// Starts to bake, one template after the other. The scope's end stops it.
    pub fn start(self, place: &OpenedDataFolder, machines: BakeMachines, bakes: TemplateBakes, scope: &Scope) {
        let (place, token) = (place.clone(), scope.token());
        scope.start("bake templates", async move {
            for recipe in &self.recipes {
                let steps = BackgroundSteps::new(&recipe.name, &bakes);
                let BakeMachines { tier, jail } = machines;
                let job = BakeJob { recipe, agent: &self.agent, host_ca: None, tier, jail };
                let baked = job.run(&place, &steps, token.cancelled()).await;
                let name = &recipe.name;
                match baked {
                    Ok(_) => {
                        bakes.remove(name);
                        let seconds = steps.begun.elapsed().as_secs();
                        tell(&format!(
                            "template {name}: baked in {seconds} s; use it with: {} create -t {name}",
                            called()
                        ));
                    }
                    Err(error) if token.is_cancelled() => {
                        tell(&format!("template {name}: {error:#}"));
                        return;
                    }
                    Err(error) => {
                        bakes.fail(name);
                        tell(&format!(
                            "ERROR: template {name} was not baked: {error:#}; try again with: {}",
                            bake_line(name.as_str(), &place)
                        ));
                    }
                }
            }
        });
    }
}

/// The command that bakes a template for a data folder.
pub fn bake_line(name: &str, place: &OpenedDataFolder) -> String {
    let folder = place.data_dir.display().to_string();
    let option = if folder == DEFAULT_DATA_DIR { String::new() } else { format!(" --data-dir {}", quoted(&folder)) };
    format!("{} template bake {name}{option}", called())
}

/// Reports the steps of a bake to the operator and to the board.
struct BackgroundSteps {
    name: TemplateName,
    bakes: TemplateBakes,
    begun: Instant,
    /// The step that runs, and its start.
    current: Mutex<Option<(String, Instant)>>,
}

impl BackgroundSteps {
    fn new(name: &TemplateName, bakes: &TemplateBakes) -> Self {
        Self { name: name.clone(), bakes: bakes.clone(), begun: Instant::now(), current: Mutex::default() }
    }
}

impl BakeProgress for BackgroundSteps {
    fn step(&self, step: &str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let last = current.replace((step.to_owned(), Instant::now()));
        let took = last.map(|(step, began)| format!(" ({step}: {})", seconds(began.elapsed()))).unwrap_or_default();
        tell(&format!("template {}: {step}{took}", self.name));
        self.bakes.step(&self.name, step);
    }

    fn line(&self, _text: &str) {}
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f32())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(names: &[&str]) -> Result<Option<BakePlan>> {
        TemplateBakeArgs { templates: names.iter().map(|name| (*name).to_owned()).collect() }.plan()
    }

    #[test]
    fn a_name_without_a_recipe_is_refused_before_anything_starts() {
        assert!(planned(&[]).unwrap().is_none());
        let error = planned(&["mini", "nonsense"]).err().map(|error| format!("{error:#}")).unwrap();
        assert!(error.contains("--template nonsense") && error.contains("mini, base"), "{error}");
    }
}
