//! Decides what a Dockerfile means: which commands run as whom and where, which files go where, what the template says in the
//! end. Pure: the same Dockerfile, base and context give the same plan, and the same keys for the cache.

use std::collections::BTreeMap;

use pandastack_wire_public::limits::{DECLARED_PORTS_MAX, ENV_BYTES_MAX, ENV_ENTRIES_MAX};
use sha2::{Digest, Sha256};

use super::{
    Settings,
    context::{self, ContextFile},
    dockerfile::{
        Argument, Command, Dockerfile, DockerfileError, Instruction, Source, Step, Taken, Transfer, TransferKind,
        expand, expand_raw, stage_called,
    },
};

/// What is to be done, in order, and what the template says then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Planned>,
    /// Folders that the last steps named and nothing made yet.
    pub folders: Vec<String>,
    pub settings: Settings,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub line: usize,
    pub text: String,
    pub act: Act,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Changes the machine.
    Change(Change),
    /// Only changes what the template says.
    Say,
    /// Nothing at all, which the log should mention.
    Nothing,
}

/// A change of the machine. Everything it depends on is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Folders to be made before.
    pub folders: Vec<String>,
    pub verb: Verb,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    Run(Run),
    Place(Place),
    Take(Take),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub argv: Vec<String>,
    /// A script that is to be the last argument's file.
    pub script: Option<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    pub user: Option<String>,
}

/// Files and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub items: Vec<Item>,
    /// Absolute; without a slash at its end.
    pub dest: String,
    /// Whether the destination is a folder for certain. If not, the machine is asked.
    pub into_folder: bool,
    pub owner: Option<String>,
    pub mode: Option<u32>,
    /// Whether archives are unpacked.
    pub unpack: bool,
}

/// Files from elsewhere and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    pub from: Taken,
    /// Absolute; the last part of one may be a pattern.
    pub sources: Vec<String>,
    pub dest: String,
    pub into_folder: bool,
    pub owner: Option<String>,
    pub mode: Option<u32>,
}

/// One file to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name below the destination.
    pub name: String,
    pub contents: Contents,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Index into the context.
    File(usize),
    Text(String),
}

/// Says which stages what is built depends on. The others are not built.
pub fn needed(file: &Dockerfile) -> Result<Vec<bool>, DockerfileError> {
    let mut needed = vec![false; file.stages.len()];
    for number in (0..file.stages.len()).rev() {
        if number + 1 == file.stages.len() {
            needed[number] = true;
        }
        if !needed[number] {
            continue;
        }
        let Base { stage, .. } = base(file, number)?;
        let taken = file.stages[number].steps.iter().filter_map(|step| match &step.instruction {
            Instruction::Transfer(Transfer { from: Some(Taken::Stage(stage)), .. }) => Some(*stage),
            _ => None,
        });
        for other in taken.chain(stage) {
            needed[other] = true;
        }
    }
    Ok(needed)
}

/// What a `FROM` means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    pub name: String,
    /// The earlier stage of that name.
    pub stage: Option<usize>,
}

/// Gives what the `FROM` of a stage means.
pub fn base(file: &Dockerfile, number: usize) -> Result<Base, DockerfileError> {
    let stage = &file.stages[number];
    let at = |problem| DockerfileError { line: stage.base_line, problem };
    let mut known = BTreeMap::new();
    for Argument { name, default } in &file.globals {
        let value = expand(default.as_deref().unwrap_or_default(), &known).map_err(at)?;
        known.insert(name.clone(), value);
    }
    let name = expand(&stage.base, &known).map_err(at)?;
    if name.is_empty() {
        return Err(at("FROM names nothing".to_owned()));
    }
    // Numbers are for COPY only: a template may be called 1.
    let called = stage_called(&name, &file.stages[..number]);
    let stage = called.filter(|other| file.stages[*other].name.as_ref() == Some(&name.to_lowercase()));
    Ok(Base { name, stage })
}

/// What a stage starts with.
#[derive(Clone, Debug, Default)]
pub struct Start {
    pub settings: Settings,
    /// Folders that the stage before named and nothing made yet.
    pub folders: Vec<String>,
}

/// Plans a stage on top of what its base says.
pub fn plan(file: &Dockerfile, stage: usize, start: Start, context: &[ContextFile]) -> Result<Plan, DockerfileError> {
    let globals = file.globals.iter().filter_map(|arg| Some((arg.name.clone(), arg.default.clone()?)));
    let mut planner = Planner {
        settings: start.settings,
        args: BTreeMap::new(),
        globals: globals.collect(),
        shell: vec!["/bin/sh".to_owned(), "-c".to_owned()],
        folders: start.folders,
        context,
    };
    let mut steps = Vec::new();
    for Step { line, text, instruction } in &file.stages[stage].steps {
        let act = planner.step(instruction).map_err(|problem| DockerfileError { line: *line, problem })?;
        planner.check().map_err(|problem| DockerfileError { line: *line, problem })?;
        steps.push(Planned { line: *line, text: text.clone(), act });
    }
    Ok(Plan { steps, folders: planner.folders, settings: planner.settings })
}

/// Gives the key under which the outcome of a change is found again: what was there before, and everything the change is made of.
/// What is taken from elsewhere depends on all that is there, which `taken` stands for.
pub fn key(before: &str, change: &Change, context: &[ContextFile], taken: &str) -> String {
    let Change { folders, verb } = change;
    let mut words: Vec<String> = vec!["build 1".to_owned(), before.to_owned(), format!("{folders:?}")];
    match verb {
        Verb::Run(run) => words.push(format!("{run:?}")),
        Verb::Take(Take { from: _, sources, dest, into_folder, owner, mode }) => {
            words.push(format!("take {taken} {sources:?} {dest:?} {into_folder} {owner:?} {mode:?}"));
        }
        Verb::Place(Place { items, dest, into_folder, owner, mode, unpack }) => {
            words.push(format!("{dest:?} {into_folder} {owner:?} {mode:?} {unpack}"));
            for Item { name, contents } in items {
                words.push(match contents {
                    Contents::File(file) => {
                        format!("{name:?} {} {}", context[*file].digest, context[*file].program)
                    }
                    Contents::Text(text) => format!("{name:?} {text:?}"),
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

struct Planner<'a> {
    settings: Settings,
    args: BTreeMap<String, String>,
    globals: BTreeMap<String, String>,
    shell: Vec<String>,
    folders: Vec<String>,
    context: &'a [ContextFile],
}

impl Planner<'_> {
    fn step(&mut self, instruction: &Instruction) -> Result<Act, String> {
        match instruction {
            Instruction::Run(command) => Ok(self.change(Verb::Run(self.run(self.argv(command), None)))),
            Instruction::Script(body) if body.starts_with("#!") => {
                Ok(self.change(Verb::Run(self.run(Vec::new(), Some(body.clone())))))
            }
            Instruction::Script(body) => {
                Ok(self.change(Verb::Run(self.run(self.argv(&Command::Shell(body.clone())), None))))
            }
            Instruction::Transfer(transfer) => {
                let place = self.place(transfer)?;
                let Some(from) = transfer.from.clone() else { return Ok(self.change(Verb::Place(place))) };
                let sources = self.taken(transfer)?;
                let Place { dest, into_folder, owner, mode, .. } = place;
                Ok(self.change(Verb::Take(Take { from, sources, dest, into_folder, owner, mode })))
            }
            Instruction::Ignored => Ok(Act::Nothing),
            said => self.say(said).map(|()| Act::Say),
        }
    }

    fn say(&mut self, instruction: &Instruction) -> Result<(), String> {
        match instruction {
            Instruction::Env(pairs) => {
                let values = self.values(pairs)?;
                if let Some((name, _)) = values.iter().find(|(name, value)| bad_variable(name, value)) {
                    return Err(format!("{name:?} is no name for a variable, or its value holds a zero byte"));
                }
                self.settings.env.extend(values);
            }
            Instruction::Label(pairs) => {
                let values = self.values(pairs)?;
                self.settings.labels.extend(values);
            }
            Instruction::Arg(arguments) => {
                for Argument { name, default } in arguments {
                    let default = default.as_deref().map(|text| self.expand(text)).transpose()?;
                    let value = default.or_else(|| self.globals.get(name).cloned());
                    self.args.extend(value.map(|value| (name.clone(), value)));
                }
            }
            Instruction::Workdir(path) => {
                let path = self.absolute(&self.expand(path)?)?;
                self.folders.push(path.clone());
                self.settings.workdir = Some(path);
            }
            Instruction::User(user) => self.settings.user = Some(self.expand(user)?).filter(|user| !user.is_empty()),
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
            Instruction::Shell(shell) => self.shell = shell.clone(),
            Instruction::Run(_) | Instruction::Script(_) | Instruction::Transfer(_) | Instruction::Ignored => {}
        }
        Ok(())
    }

    fn change(&mut self, verb: Verb) -> Act {
        Act::Change(Change { folders: std::mem::take(&mut self.folders), verb })
    }

    fn argv(&self, command: &Command) -> Vec<String> {
        match command {
            Command::Exec(argv) => argv.clone(),
            Command::Shell(text) => self.shell.iter().cloned().chain([text.clone()]).collect(),
        }
    }

    fn run(&self, argv: Vec<String>, script: Option<String>) -> Run {
        let Settings { workdir, user, .. } = &self.settings;
        let cwd = Some(workdir.clone().unwrap_or_else(|| "/".to_owned()));
        Run { argv, script, env: self.known(), cwd, user: user.clone() }
    }

    /// What variables stand for now: arguments, and the environment over them.
    fn known(&self) -> BTreeMap<String, String> {
        let mut known = self.args.clone();
        known.extend(self.settings.env.clone());
        known
    }

    fn expand(&self, text: &str) -> Result<String, String> {
        expand(text, &self.known())
    }

    fn values(&self, pairs: &[(String, String)]) -> Result<Vec<(String, String)>, String> {
        pairs.iter().map(|(name, value)| Ok((self.expand(name)?, self.expand(value)?))).collect()
    }

    /// Resolves a path in the machine against the working folder.
    fn absolute(&self, path: &str) -> Result<String, String> {
        if path.is_empty() || path.contains('\0') {
            return Err("the path is empty or holds a zero byte".to_owned());
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
        Ok(format!("/{}", parts.join("/")))
    }

    fn expose(&mut self, word: &str) -> Result<(), String> {
        let word = self.expand(word)?;
        let (ports, protocol) = word.split_once('/').unwrap_or((&word, "tcp"));
        let (low, high) = ports.split_once('-').unwrap_or((ports, ports));
        let bad = || format!("{word:?} is no port");
        let (low, high): (u16, u16) = (low.parse().map_err(|_| bad())?, high.parse().map_err(|_| bad())?);
        if low == 0 || low > high || !["tcp", "udp"].contains(&protocol.to_ascii_lowercase().as_str()) {
            return Err(bad());
        }
        // Only what speaks TCP can be reached from outside.
        if protocol.eq_ignore_ascii_case("tcp") {
            self.settings.ports.extend((low..=high).take(DECLARED_PORTS_MAX + 1));
        }
        Ok(())
    }

    fn place(&self, transfer: &Transfer) -> Result<Place, String> {
        let Transfer { kind, from: _, sources, dest, owner, mode } = transfer;
        let (mut items, mut many) = (Vec::new(), sources.len() > 1);
        for source in sources {
            match source {
                Source::Inline { name, body, expand } => {
                    let text = if *expand { expand_raw(body, &self.known())? } else { body.clone() };
                    items.push(Item { name: name.clone(), contents: Contents::Text(text) });
                }
                // What another stage holds is seen when it is there.
                Source::Path(_) if transfer.from.is_some() => {}
                Source::Path(path) => {
                    let found = context::find(self.context, &self.expand(path)?)?;
                    many |= found.many;
                    let item = |meant: context::Meant| Item { name: meant.name, contents: Contents::File(meant.file) };
                    items.extend(found.files.into_iter().map(item));
                }
            }
        }
        let dest = self.expand(dest)?;
        let folder = dest.ends_with('/') || dest == "." || dest.ends_with("/.") || dest.ends_with("..");
        if sources.len() > 1 && !folder {
            return Err(format!("with several sources the destination {dest:?} must end in /"));
        }
        let mode = mode.as_deref().map(|mode| self.expand(mode)).transpose()?.map(|mode| octal(&mode)).transpose()?;
        let owner = owner.as_deref().map(|owner| self.expand(owner)).transpose()?;
        Ok(Place {
            items,
            dest: self.absolute(&dest)?,
            into_folder: many || folder,
            owner: owner.filter(|owner| !owner.is_empty()),
            mode,
            unpack: *kind == TransferKind::Add,
        })
    }

    /// Gives paths in another stage: absolute, whatever folder this one works in.
    fn taken(&self, transfer: &Transfer) -> Result<Vec<String>, String> {
        let path = |source: &Source| match source {
            Source::Path(path) => self.absolute(&format!("/{}", self.expand(path)?)),
            Source::Inline { .. } => Err("text that stands in the Dockerfile is not in another stage".to_owned()),
        };
        transfer.sources.iter().map(path).collect()
    }

    /// Holds everything that a step added to the limits.
    fn check(&self) -> Result<(), String> {
        let known = self.known();
        let bytes: usize = known.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        if known.len() > ENV_ENTRIES_MAX || bytes > ENV_BYTES_MAX {
            return Err(format!("more than {ENV_ENTRIES_MAX} variables or {ENV_BYTES_MAX} bytes of them"));
        }
        if self.settings.ports.len() > DECLARED_PORTS_MAX {
            return Err(format!("more than {DECLARED_PORTS_MAX} ports"));
        }
        let labels: usize = self.settings.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        if labels > ENV_BYTES_MAX {
            return Err(format!("more than {ENV_BYTES_MAX} bytes of labels"));
        }
        Ok(())
    }
}

fn bad_variable(name: &str, value: &str) -> bool {
    name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
}

fn octal(mode: &str) -> Result<u32, String> {
    let bad = || format!("--chmod={mode} is not an octal mode such as 755");
    u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777).ok_or_else(bad)
}

#[cfg(test)]
mod tests;
