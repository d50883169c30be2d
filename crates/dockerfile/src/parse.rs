//! Parses the instructions of a Dockerfile into steps. Variables are not replaced here: their
//! values depend on earlier steps.

use super::{
    DockerfileError, InstructionProblem,
    heredoc::{self, HereDoc},
    lines::{InstructionLine, split},
    words,
};
use crate::limits::{BUILD_STEPS_MAX, DOCKERFILE_BYTES_MAX, STEP_TEXT_SHOWN_MAX};

/// A whole Dockerfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dockerfile {
    /// The arguments before the first `FROM`. They apply only to names of bases.
    pub globals: Vec<BuildArgument>,
    /// At least one. The last stage is the result.
    pub stages: Vec<Stage>,
}

/// One `FROM` and its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// In lower case.
    pub name: Option<String>,
    pub base: String,
    pub base_line: usize,
    pub steps: Vec<StageStep>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageStep {
    pub line: usize,
    /// Text for the log.
    pub text: String,
    pub instruction: Instruction,
}

/// The content of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    Run(CommandForm),
    /// The whole command is a here-document.
    Script(String),
    Transfer(Transfer),
    /// Names and values.
    Env(Vec<(String, String)>),
    Arg(Vec<BuildArgument>),
    Workdir(String),
    User(String),
    Cmd(CommandForm),
    Entrypoint(CommandForm),
    Expose(Vec<String>),
    Label(Vec<(String, String)>),
    Shell(Vec<String>),
    /// Has no effect on a machine.
    Ignored,
}

/// A build argument with its default value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildArgument {
    pub name: String,
    pub default: Option<String>,
    pub line: usize,
}

/// A command in shell form or exec form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandForm {
    Shell(String),
    Exec(Vec<String>),
}

/// `COPY` or `ADD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub kind: TransferKind,
    /// The source of `--from`. `None` is the context.
    pub from: Option<CopyFrom>,
    pub sources: Vec<CopySource>,
    pub dest: String,
    pub owner: Option<String>,
    pub mode: Option<String>,
}

/// The source that `COPY --from` names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyFrom {
    /// The number of a stage.
    Stage(usize),
    /// A template or an image.
    Named(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    Copy,
    Add,
}

/// One source of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// A path or pattern in the context.
    Path(String),
    /// Text of a here-document.
    Inline { name: String, body: String, expand: bool },
}

/// Parses a Dockerfile.
pub fn parse(text: &str) -> Result<Dockerfile, DockerfileError> {
    if text.len() > DOCKERFILE_BYTES_MAX {
        let text = format!("the file has {} bytes; at most {DOCKERFILE_BYTES_MAX} are allowed", text.len());
        return Err(DockerfileError::at(1, InstructionProblem { text, code: "build.dockerfile_too_large" }));
    }
    let (mut globals, mut stages, mut count) = (Vec::new(), Vec::<Stage>::new(), 0);
    for line in split(text)? {
        let number = line.number;
        // A stage counts as a step, because each may need a machine.
        count += 1;
        match (line.keyword.as_str(), stages.is_empty()) {
            ("FROM", _) => stages.push(from(&line)?),
            ("ARG", true) => {
                count -= 1;
                globals.extend(arguments(&line)?);
            }
            (keyword, true) => {
                return Err(DockerfileError::at(
                    number,
                    format!("{} before FROM; only ARG is allowed there", shown(keyword)),
                ));
            }
            (_, false) => {
                let step = step(line, &stages)?;
                if let Some(stage) = stages.last_mut() {
                    stage.steps.push(step);
                }
            }
        }
        if count > BUILD_STEPS_MAX + 1 {
            return Err(DockerfileError::at(number, format!("more than {BUILD_STEPS_MAX} steps")));
        }
    }
    if stages.is_empty() {
        Err(DockerfileError::at(1, "the Dockerfile has no FROM"))
    } else {
        Ok(Dockerfile { globals, stages })
    }
}

fn from(line: &InstructionLine) -> Result<Stage, DockerfileError> {
    let at = |problem: String| DockerfileError::at(line.number, problem);
    let (flags, words) = flags(&line.rest);
    for (name, value) in flags {
        if name != "platform" || value != "linux/amd64" {
            return Err(at(format!(
                "--{}={} is not supported; only linux/amd64 is available",
                shown(&name),
                shown(&value)
            )));
        }
    }
    match words.as_slice() {
        [image] => Ok(Stage { name: None, base: image.clone(), base_line: line.number, steps: Vec::new() }),
        [image, word, name] if word.eq_ignore_ascii_case("as") => {
            let name = Some(name.to_lowercase());
            Ok(Stage { name, base: image.clone(), base_line: line.number, steps: Vec::new() })
        }
        _ => Err(at("write FROM NAME or FROM NAME AS STAGE".to_owned())),
    }
}

fn step(line: InstructionLine, stages: &[Stage]) -> Result<StageStep, DockerfileError> {
    let at = |problem: String| DockerfileError::at(line.number, problem);
    let instruction = match line.keyword.as_str() {
        "RUN" => run(&line)?,
        "COPY" => Instruction::Transfer(transfer(&line, TransferKind::Copy, stages)?),
        "ADD" => Instruction::Transfer(transfer(&line, TransferKind::Add, stages)?),
        "ENV" => Instruction::Env(pairs(&line)?),
        "LABEL" => Instruction::Label(pairs(&line)?),
        "ARG" => Instruction::Arg(arguments(&line)?),
        "WORKDIR" => Instruction::Workdir(line.rest.clone()),
        "USER" => Instruction::User(line.rest.clone()),
        "CMD" => Instruction::Cmd(command(&line.rest)),
        "ENTRYPOINT" => Instruction::Entrypoint(command(&line.rest)),
        "EXPOSE" => Instruction::Expose(words::split(&line.rest)),
        "SHELL" => match json(&line.rest) {
            Some(shell) if !shell.is_empty() => Instruction::Shell(shell),
            _ => return Err(at("SHELL needs a JSON array such as [\"/bin/bash\", \"-c\"]".to_owned())),
        },
        "HEALTHCHECK" | "STOPSIGNAL" | "VOLUME" | "MAINTAINER" => Instruction::Ignored,
        "ONBUILD" => return Err(at("ONBUILD is not supported".to_owned())),
        other => return Err(at(format!("unknown instruction {:?}", shown(other)))),
    };
    Ok(StageStep { line: line.number, text: shown(&format!("{} {}", line.keyword, line.rest)), instruction })
}

fn run(line: &InstructionLine) -> Result<Instruction, DockerfileError> {
    let mut rest = line.rest.as_str();
    while let Some(flag) = rest.strip_prefix("--") {
        let (flag, after) = flag.split_once(char::is_whitespace).unwrap_or((flag, ""));
        // A cache mount may always be empty. The other kinds need something that does not exist
        // here.
        let harmless = flag.starts_with("mount=") && flag.contains("type=cache");
        if !harmless && flag != "network=default" {
            return Err(DockerfileError::at(line.number, format!("RUN --{} is not supported", shown(flag))));
        }
        rest = after.trim_start();
    }
    if rest.is_empty() {
        return Err(DockerfileError::at(line.number, "RUN needs a command"));
    }
    match line.documents.as_slice() {
        [document] if heredoc::opening(rest).is_some() => Ok(Instruction::Script(document.body.clone())),
        documents => {
            let text: String = documents.iter().map(|document| document.raw.as_str()).collect();
            Ok(Instruction::Run(match command(rest) {
                CommandForm::Shell(rest) if !text.is_empty() => CommandForm::Shell(format!("{rest}\n{text}")),
                command => command,
            }))
        }
    }
}

fn transfer(line: &InstructionLine, kind: TransferKind, stages: &[Stage]) -> Result<Transfer, DockerfileError> {
    let at = |problem: String| DockerfileError::at(line.number, problem);
    let (flags, mut words) = flags(&line.rest);
    let (mut owner, mut mode, mut from) = (None, None, None);
    for (name, value) in flags {
        match name.as_str() {
            "chown" => owner = Some(value),
            "chmod" => mode = Some(value),
            "link" => {}
            "from" if kind == TransferKind::Copy => {
                let none = || at(format!("--from={}: no earlier stage has this name or number", shown(&value)));
                from = Some(taken(&value, stages).ok_or_else(none)?);
            }
            _ => return Err(at(format!("{} --{} is not supported", line.keyword, shown(&name)))),
        }
    }
    if let [text] = words.as_slice()
        && let Some(list) = json(text)
    {
        words = list;
    } else if words.first().is_some_and(|word| word.starts_with('[')) {
        words = json(&words.join(" ")).ok_or_else(|| at("the list is not valid JSON".to_owned()))?;
    }
    let dest = words.pop().filter(|_| !words.is_empty());
    let dest = dest.ok_or_else(|| at(format!("{} needs a source and a destination", line.keyword)))?;
    let mut documents = line.documents.iter();
    let sources = words.into_iter().map(|word| source(word, kind, &mut documents));
    let sources: Vec<CopySource> = sources.collect::<Result<_, _>>().map_err(at)?;
    if from.is_some() && sources.iter().any(|source| matches!(source, CopySource::Inline { .. })) {
        return Err(at("a here-document cannot be combined with --from".to_owned()));
    }
    Ok(Transfer { kind, from, sources, dest, owner, mode })
}

/// Resolves `--from`: an earlier stage, or else a name as in `FROM`.
fn taken(word: &str, stages: &[Stage]) -> Option<CopyFrom> {
    let (this, earlier) = stages.split_last()?;
    if let Some(number) = stage_called(word, earlier) {
        return Some(CopyFrom::Stage(number));
    }
    // Numbers are only for stages, and a stage cannot copy from itself.
    let slip = word.is_empty() || word.bytes().all(|byte| byte.is_ascii_digit());
    let itself = this.name.as_ref() == Some(&word.to_lowercase());
    (!slip && !itself).then(|| CopyFrom::Named(word.to_owned()))
}

/// Finds a stage by its name or number. The last stage of a name wins.
pub fn stage_called(word: &str, stages: &[Stage]) -> Option<usize> {
    let word = word.to_lowercase();
    let named = stages.iter().rposition(|stage| stage.name.as_ref() == Some(&word));
    named.or_else(|| word.parse().ok().filter(|number| *number < stages.len()))
}

fn source<'a>(
    word: String,
    kind: TransferKind,
    documents: &mut impl Iterator<Item = &'a HereDoc>,
) -> Result<CopySource, String> {
    if heredoc::opening(&word).is_some()
        && let Some(HereDoc { name, body, expand, raw: _ }) = documents.next()
    {
        return Ok(CopySource::Inline { name: name.clone(), body: body.clone(), expand: *expand });
    }
    let remote = ["http://", "https://", "git@", "git://"].iter().any(|scheme| word.starts_with(scheme));
    if remote {
        let instead = "download it with RUN and check the result there";
        let verb = if kind == TransferKind::Add { "ADD" } else { "COPY" };
        return Err(format!("{verb} of a URL is not supported; {instead}"));
    }
    Ok(CopySource::Path(word))
}

/// Splits off the leading `--name=value` words.
fn flags(rest: &str) -> (Vec<(String, String)>, Vec<String>) {
    let mut words = words::split(rest);
    let count = words.iter().take_while(|word| word.starts_with("--")).count();
    let rest = words.split_off(count);
    let flag = |word: String| {
        let word = word.trim_start_matches("--");
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.to_owned(), value.to_owned())
    };
    (words.into_iter().map(flag).collect(), rest)
}

fn pairs(line: &InstructionLine) -> Result<Vec<(String, String)>, DockerfileError> {
    let words = words::split(&line.rest);
    if !words.first().is_some_and(|word| word.contains('=')) {
        // The old form: one name, and the rest of the line is its value.
        let (name, value) = line.rest.split_once(char::is_whitespace).unwrap_or((&line.rest, ""));
        if value.is_empty() {
            return Err(DockerfileError::at(line.number, format!("{} {} has no value", line.keyword, shown(name))));
        }
        return Ok(vec![(name.to_owned(), value.trim_start().to_owned())]);
    }
    let pair = |word: &String| match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(DockerfileError::at(line.number, format!("{:?} must have the form NAME=VALUE", shown(word)))),
    };
    words.iter().map(pair).collect()
}

fn arguments(line: &InstructionLine) -> Result<Vec<BuildArgument>, DockerfileError> {
    let argument = |word: &String| {
        let (name, default) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(DockerfileError::at(line.number, format!("{:?} is not a valid argument name", shown(name))));
        }
        Ok(BuildArgument { name: name.to_owned(), default: default.map(str::to_owned), line: line.number })
    };
    words::split(&line.rest).iter().map(argument).collect()
}

fn command(text: &str) -> CommandForm {
    match json(text) {
        Some(argv) if !argv.is_empty() => CommandForm::Exec(argv),
        _ => CommandForm::Shell(text.to_owned()),
    }
}

fn json(text: &str) -> Option<Vec<String>> {
    if text.starts_with('[') { serde_json::from_str(text).ok() } else { None }
}

/// Shortens text for a log or an error.
fn shown(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(STEP_TEXT_SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &one_line[..at]),
        None => one_line,
    }
}
