//! Plans a Dockerfile: which commands run, as which user and where, which files go where, and the
//! settings of the template. Pure: the same Dockerfile, base and context give the same plan and the
//! same cache keys.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::{
    BuildArgument, CommandForm, CopyFrom, CopySource, Dockerfile, DockerfileError, Expander, Instruction,
    InstructionProblem, StageStep, TemplateSettings, Transfer, TransferKind,
    context::{self, ContextFile},
    limits::{
        DOCKERFILE_PATH_BYTES_MAX, DOCKERFILE_PLACED_BYTES_MAX, DOCKERFILE_SHELL_BYTES_MAX, DOCKERFILE_SOURCES_MAX,
        DOCKERFILE_USER_BYTES_MAX, PORTS_MAX, VARIABLE_BYTES_MAX, VARIABLES_MAX,
    },
    stage_called,
};

/// The steps in order, and the template's settings after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    pub steps: Vec<PlannedStep>,
    /// Folders that the last steps named and that no step has made yet.
    pub folders: Vec<String>,
    pub settings: TemplateSettings,
}

/// One planned step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    pub line: usize,
    pub text: String,
    pub act: StepEffect,
}

/// The effect of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepEffect {
    /// Changes the machine.
    Change(MachineChange),
    /// Changes only the template's settings.
    Say,
    /// No effect. The log should mention it.
    Nothing,
}

/// A change of the machine. It contains everything that it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineChange {
    /// Folders to make first.
    pub folders: Vec<String>,
    pub verb: ChangeAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeAction {
    Run(RunCommand),
    Place(PlaceFiles),
    Take(CopyFiles),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCommand {
    pub argv: Vec<String>,
    /// A script, written to a file whose path becomes the last argument.
    pub script: Option<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    pub user: Option<String>,
}

/// Files, and their destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceFiles {
    pub items: Vec<PlacedFile>,
    /// Absolute, without a trailing slash.
    pub dest: String,
    /// Whether the destination is certainly a folder. If not, the machine is asked.
    pub into_folder: bool,
    pub owner: Option<String>,
    pub mode: Option<u32>,
    /// Whether archives are unpacked.
    pub unpack: bool,
}

/// Files from another stage, template or image, and their destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFiles {
    pub from: CopyFrom,
    /// Absolute. The last part of a path may be a pattern.
    pub sources: Vec<String>,
    pub dest: String,
    pub into_folder: bool,
    pub owner: Option<String>,
    pub mode: Option<u32>,
}

/// One file to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFile {
    /// Its name below the destination.
    pub name: String,
    pub contents: PlacedContents,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacedContents {
    /// Index into the context.
    File(usize),
    Text(String),
}

/// Plans the stages of a Dockerfile, with one budget for the whole file.
#[derive(Debug)]
pub struct Planner<'a> {
    file: &'a Dockerfile,
    /// The arguments before the first `FROM`, with their values.
    globals: BTreeMap<String, String>,
    budget: PlanBudget,
}

/// Remaining budget for the plans of all stages.
#[derive(Debug)]
struct PlanBudget {
    expander: Expander,
    /// Sources of `COPY` and `ADD`.
    sources: usize,
    /// Memory for the files that the sources match.
    placed: usize,
}

impl Default for PlanBudget {
    fn default() -> Self {
        let (sources, placed) = (DOCKERFILE_SOURCES_MAX, DOCKERFILE_PLACED_BYTES_MAX);
        Self { expander: Expander::default(), sources, placed }
    }
}

impl PlanBudget {
    fn source(&mut self) -> Result<(), InstructionProblem> {
        let over = || {
            InstructionProblem::from(format!(
                "the Dockerfile has more than {DOCKERFILE_SOURCES_MAX} sources in COPY and ADD"
            ))
        };
        self.sources = self.sources.checked_sub(1).ok_or_else(over)?;
        Ok(())
    }

    fn place(&mut self, item: &PlacedFile) -> Result<(), InstructionProblem> {
        let over = || {
            let text = format!(
                "the names of all copied files take more than {DOCKERFILE_PLACED_BYTES_MAX} bytes; copy large \
                 directories once, or exclude files with .dockerignore"
            );
            InstructionProblem { text, code: "build.dockerfile_too_large" }
        };
        self.placed = self.placed.checked_sub(item.name.len() + size_of::<PlacedFile>()).ok_or_else(over)?;
        Ok(())
    }
}

/// The base that a `FROM` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageBase {
    pub name: String,
    /// The earlier stage of that name.
    pub stage: Option<usize>,
}

/// The initial state of a stage.
#[derive(Clone, Debug, Default)]
pub struct StageStart {
    pub settings: TemplateSettings,
    /// Folders that the base stage named and that no step has made yet.
    pub folders: Vec<String>,
}

impl<'a> Planner<'a> {
    /// Reads the arguments before the first `FROM`.
    pub fn new(file: &'a Dockerfile) -> Result<Self, DockerfileError> {
        let (mut budget, mut globals) = (PlanBudget::default(), BTreeMap::<String, String>::new());
        for BuildArgument { name, default, line } in &file.globals {
            let Some(default) = default else { continue };
            let value = budget.expander.expand(default, &|name| globals.get(name).map(String::as_str));
            globals.insert(name.clone(), value.map_err(|problem| DockerfileError::at(*line, problem))?);
        }
        Ok(Self { file, globals, budget })
    }

    /// Marks the stages that the last stage depends on. The others are not built.
    pub fn needed(&mut self) -> Result<Vec<bool>, DockerfileError> {
        let stages = &self.file.stages;
        let mut needed = vec![false; stages.len()];
        for number in (0..stages.len()).rev() {
            if number + 1 == stages.len() {
                needed[number] = true;
            }
            if !needed[number] {
                continue;
            }
            let StageBase { stage, .. } = self.base(number)?;
            let taken = stages[number].steps.iter().filter_map(|step| match &step.instruction {
                Instruction::Transfer(Transfer { from: Some(CopyFrom::Stage(stage)), .. }) => Some(*stage),
                _ => None,
            });
            for other in taken.chain(stage) {
                needed[other] = true;
            }
        }
        Ok(needed)
    }

    /// Resolves the `FROM` of a stage.
    pub fn base(&mut self, number: usize) -> Result<StageBase, DockerfileError> {
        let Self { file, globals, budget } = self;
        let stage = &file.stages[number];
        let at = |problem| DockerfileError::at(stage.base_line, problem);
        let name = budget.expander.expand(&stage.base, &|name| globals.get(name).map(String::as_str)).map_err(at)?;
        if name.is_empty() {
            return Err(at("FROM is empty after variable expansion".into()));
        }
        // Only `COPY` accepts a stage's number: a template may be called `1`.
        let called = stage_called(&name, &file.stages[..number]);
        let stage = called.filter(|other| file.stages[*other].name.as_ref() == Some(&name.to_lowercase()));
        Ok(StageBase { name, stage })
    }

    /// Plans a stage on top of its base.
    pub fn stage(
        &mut self,
        stage: usize,
        start: StageStart,
        context: &[ContextFile],
    ) -> Result<StagePlan, DockerfileError> {
        let mut planner = StagePlanner {
            settings: start.settings,
            args: BTreeMap::new(),
            globals: &self.globals,
            shell: vec!["/bin/sh".to_owned(), "-c".to_owned()],
            folders: start.folders,
            context,
            budget: &mut self.budget,
        };
        let mut steps = Vec::new();
        for StageStep { line, text, instruction } in &self.file.stages[stage].steps {
            let act = planner.step(instruction).map_err(|problem| DockerfileError::at(*line, problem))?;
            planner.check().map_err(|problem| DockerfileError::at(*line, problem))?;
            steps.push(PlannedStep { line: *line, text: text.clone(), act });
        }
        Ok(StagePlan { steps, folders: planner.folders, settings: planner.settings })
    }
}

/// Cache key of a change: a digest of the state before it and of the change itself. For files from
/// another source, `taken` identifies the whole source.
pub fn key(before: &str, change: &MachineChange, context: &[ContextFile], taken: &str) -> String {
    let MachineChange { folders, verb } = change;
    let mut words: Vec<String> = vec!["build 1".to_owned(), before.to_owned(), format!("{folders:?}")];
    match verb {
        ChangeAction::Run(run) => words.push(format!("{run:?}")),
        ChangeAction::Take(CopyFiles { from: _, sources, dest, into_folder, owner, mode }) => {
            words.push(format!("take {taken} {sources:?} {dest:?} {into_folder} {owner:?} {mode:?}"));
        }
        ChangeAction::Place(PlaceFiles { items, dest, into_folder, owner, mode, unpack }) => {
            words.push(format!("{dest:?} {into_folder} {owner:?} {mode:?} {unpack}"));
            for PlacedFile { name, contents } in items {
                words.push(match contents {
                    PlacedContents::File(file) => {
                        format!("{name:?} {} {}", context[*file].digest, context[*file].program)
                    }
                    PlacedContents::Text(text) => format!("{name:?} {text:?}"),
                });
            }
        }
    }
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update((word.len() as u64).to_le_bytes());
        hasher.update(word);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

struct StagePlanner<'a> {
    settings: TemplateSettings,
    args: BTreeMap<String, String>,
    globals: &'a BTreeMap<String, String>,
    shell: Vec<String>,
    folders: Vec<String>,
    context: &'a [ContextFile],
    budget: &'a mut PlanBudget,
}

impl StagePlanner<'_> {
    fn step(&mut self, instruction: &Instruction) -> Result<StepEffect, InstructionProblem> {
        match instruction {
            Instruction::Run(command) => Ok(self.change(ChangeAction::Run(self.run(self.argv(command), None)))),
            Instruction::Script(body) if body.starts_with("#!") => {
                Ok(self.change(ChangeAction::Run(self.run(Vec::new(), Some(body.clone())))))
            }
            Instruction::Script(body) => {
                Ok(self.change(ChangeAction::Run(self.run(self.argv(&CommandForm::Shell(body.clone())), None))))
            }
            Instruction::Transfer(transfer) => {
                let place = self.place(transfer)?;
                let Some(from) = transfer.from.clone() else { return Ok(self.change(ChangeAction::Place(place))) };
                let sources = self.taken(transfer)?;
                let PlaceFiles { dest, into_folder, owner, mode, .. } = place;
                Ok(self.change(ChangeAction::Take(CopyFiles { from, sources, dest, into_folder, owner, mode })))
            }
            Instruction::Ignored => Ok(StepEffect::Nothing),
            said => self.say(said).map(|()| StepEffect::Say),
        }
    }

    fn say(&mut self, instruction: &Instruction) -> Result<(), InstructionProblem> {
        match instruction {
            Instruction::Env(pairs) => {
                let values = self.values(pairs)?;
                if let Some((name, _)) = values.iter().find(|(name, value)| bad_variable(name, value)) {
                    let name: String = name.chars().take(80).collect();
                    return Err(
                        format!("{name:?} is not a valid variable name, or its value contains a NUL byte").into()
                    );
                }
                self.settings.env.extend(values);
            }
            Instruction::Label(pairs) => {
                let values = self.values(pairs)?;
                self.settings.labels.extend(values);
            }
            Instruction::Arg(arguments) => {
                for BuildArgument { name, default, .. } in arguments {
                    let default = default.as_deref().map(|text| self.expand(text)).transpose()?;
                    let value = default.or_else(|| self.globals.get(name).cloned());
                    self.args.extend(value.map(|value| (name.clone(), value)));
                    if self.args.len() > VARIABLES_MAX {
                        return Err(too_many_variables());
                    }
                }
            }
            Instruction::Workdir(path) => {
                let path = self.expand(path)?;
                let path = self.absolute(&path)?;
                self.folders.push(path.clone());
                self.settings.workdir = Some(path);
            }
            Instruction::User(user) => {
                let user = self.expand(user)?;
                if user.len() > DOCKERFILE_USER_BYTES_MAX {
                    return Err(format!("USER is longer than {DOCKERFILE_USER_BYTES_MAX} bytes").into());
                }
                self.settings.user = Some(user).filter(|user| !user.is_empty());
            }
            Instruction::Cmd(command) => self.settings.cmd = self.argv(command),
            Instruction::Entrypoint(command) => {
                self.settings.entrypoint = self.argv(command);
                self.settings.cmd.clear();
            }
            Instruction::Expose(words) => {
                for word in words {
                    self.expose(word)?;
                }
            }
            Instruction::Shell(shell) => {
                // Every `RUN` copies it.
                if shell.iter().map(|word| word.len() + size_of::<String>()).sum::<usize>() > DOCKERFILE_SHELL_BYTES_MAX
                {
                    return Err(format!("SHELL is longer than {DOCKERFILE_SHELL_BYTES_MAX} bytes").into());
                }
                self.shell.clone_from(shell);
            }
            Instruction::Run(_) | Instruction::Script(_) | Instruction::Transfer(_) | Instruction::Ignored => {}
        }
        Ok(())
    }

    fn change(&mut self, verb: ChangeAction) -> StepEffect {
        StepEffect::Change(MachineChange { folders: std::mem::take(&mut self.folders), verb })
    }

    fn argv(&self, command: &CommandForm) -> Vec<String> {
        match command {
            CommandForm::Exec(argv) => argv.clone(),
            CommandForm::Shell(text) => self.shell.iter().cloned().chain([text.clone()]).collect(),
        }
    }

    fn run(&self, argv: Vec<String>, script: Option<String>) -> RunCommand {
        let TemplateSettings { workdir, user, .. } = &self.settings;
        let cwd = Some(workdir.clone().unwrap_or_else(|| "/".to_owned()));
        RunCommand { argv, script, env: self.known(), cwd, user: user.clone() }
    }

    /// Current values of variables: arguments, overridden by the environment.
    fn known(&self) -> BTreeMap<String, String> {
        let mut known = self.args.clone();
        known.extend(self.settings.env.clone());
        known
    }

    fn expand(&mut self, text: &str) -> Result<String, InstructionProblem> {
        let Self { budget, settings, args, .. } = self;
        budget.expander.expand(text, &|name| settings.env.get(name).or_else(|| args.get(name)).map(String::as_str))
    }

    fn expand_raw(&mut self, text: &str) -> Result<String, InstructionProblem> {
        let Self { budget, settings, args, .. } = self;
        budget.expander.expand_raw(text, &|name| settings.env.get(name).or_else(|| args.get(name)).map(String::as_str))
    }

    fn values(&mut self, pairs: &[(String, String)]) -> Result<Vec<(String, String)>, InstructionProblem> {
        pairs.iter().map(|(name, value)| Ok((self.expand(name)?, self.expand(value)?))).collect()
    }

    /// Resolves a path in the machine against the working directory.
    fn absolute(&self, path: &str) -> Result<String, InstructionProblem> {
        if path.is_empty() || path.contains('\0') {
            return Err("the path is empty or contains a NUL byte".into());
        }
        let start = if path.starts_with('/') { "" } else { self.settings.workdir.as_deref().unwrap_or_default() };
        let mut parts: Vec<&str> = Vec::new();
        for part in start.split('/').chain(path.split('/')) {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let path = format!("/{}", parts.join("/"));
        if path.len() > DOCKERFILE_PATH_BYTES_MAX {
            return Err(format!("a path is longer than {DOCKERFILE_PATH_BYTES_MAX} bytes").into());
        }
        Ok(path)
    }

    fn expose(&mut self, word: &str) -> Result<(), InstructionProblem> {
        let word = self.expand(word)?;
        let (ports, protocol) = word.split_once('/').unwrap_or((&word, "tcp"));
        let (low, high) = ports.split_once('-').unwrap_or((ports, ports));
        let bad =
            || InstructionProblem::from(format!("{:?} is not a valid port", word.chars().take(80).collect::<String>()));
        let (low, high): (u16, u16) = (low.parse().map_err(|_| bad())?, high.parse().map_err(|_| bad())?);
        if low == 0 || low > high || !["tcp", "udp"].contains(&protocol.to_ascii_lowercase().as_str()) {
            return Err(bad());
        }
        // Only TCP ports can be reached from outside.
        if protocol.eq_ignore_ascii_case("tcp") {
            self.settings.ports.extend((low..=high).take(PORTS_MAX + 1));
        }
        Ok(())
    }

    fn place(&mut self, transfer: &Transfer) -> Result<PlaceFiles, InstructionProblem> {
        let Transfer { kind, from: _, sources, dest, owner, mode } = transfer;
        let (mut items, mut many) = (Vec::new(), sources.len() > 1);
        for source in sources {
            self.budget.source()?;
            match source {
                CopySource::Inline { name, body, expand } => {
                    let text = if *expand { self.expand_raw(body)? } else { body.clone() };
                    items.push(PlacedFile { name: name.clone(), contents: PlacedContents::Text(text) });
                }
                // Paths in another stage are checked when they are copied.
                CopySource::Path(_) if transfer.from.is_some() => {}
                CopySource::Path(path) => {
                    let path = self.expand(path)?;
                    let found = context::find(self.context, &path)?;
                    many |= found.many;
                    for context::MatchedFile { file, name } in found.files {
                        let item = PlacedFile { name, contents: PlacedContents::File(file) };
                        self.budget.place(&item)?;
                        items.push(item);
                    }
                }
            }
        }
        let dest = self.expand(dest)?;
        let folder = dest.ends_with('/') || dest == "." || dest.ends_with("/.") || dest.ends_with("..");
        if sources.len() > 1 && !folder {
            let dest: String = dest.chars().take(200).collect();
            return Err(format!("with several sources the destination {dest:?} must end in /").into());
        }
        let mode = mode.as_deref().map(|mode| self.expand(mode)).transpose()?.map(|mode| octal(&mode)).transpose()?;
        let owner = owner.as_deref().map(|owner| self.expand(owner)).transpose()?;
        Ok(PlaceFiles {
            items,
            dest: self.absolute(&dest)?,
            into_folder: many || folder,
            owner: owner.filter(|owner| !owner.is_empty()),
            mode,
            unpack: *kind == TransferKind::Add,
        })
    }

    /// Paths in another stage: absolute, independent of this stage's working directory.
    fn taken(&mut self, transfer: &Transfer) -> Result<Vec<String>, InstructionProblem> {
        let path = |source: &CopySource| match source {
            CopySource::Path(path) => {
                let path = self.expand(path)?;
                self.absolute(&format!("/{path}"))
            }
            CopySource::Inline { .. } => Err("a here-document cannot be combined with --from".into()),
        };
        transfer.sources.iter().map(path).collect()
    }

    /// Checks everything that a step added against the limits.
    fn check(&self) -> Result<(), InstructionProblem> {
        let env = &self.settings.env;
        let hidden = |(name, _): &(&String, &String)| !env.contains_key(*name);
        let known = || env.iter().chain(self.args.iter().filter(hidden));
        let bytes: usize = known().map(|(name, value)| name.len() + value.len() + 2).sum();
        if known().count() > VARIABLES_MAX || bytes > VARIABLE_BYTES_MAX {
            return Err(too_many_variables());
        }
        if self.settings.ports.len() > PORTS_MAX {
            return Err(format!("more than {PORTS_MAX} exposed ports").into());
        }
        let labels: usize = self.settings.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        if labels > VARIABLE_BYTES_MAX {
            return Err(format!("more than {VARIABLE_BYTES_MAX} bytes of labels").into());
        }
        Ok(())
    }
}

fn too_many_variables() -> InstructionProblem {
    format!("more than {VARIABLES_MAX} variables, or more than {VARIABLE_BYTES_MAX} bytes of variables").into()
}

fn bad_variable(name: &str, value: &str) -> bool {
    name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
}

fn octal(mode: &str) -> Result<u32, InstructionProblem> {
    let bad = || {
        let mode: String = mode.chars().take(80).collect();
        InstructionProblem::from(format!("--chmod={mode} is not an octal mode such as 755"))
    };
    u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777).ok_or_else(bad)
}

#[cfg(test)]
mod tests;
