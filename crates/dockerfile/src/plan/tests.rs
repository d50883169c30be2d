//! Tests of plans, and of the inputs of cache keys.

use super::*;
use crate::{limits::DOCKERFILE_EXPANDED_BYTES_MAX, parse};

fn file(path: &str, digest: &str) -> ContextFile {
    ContextFile { path: path.to_owned(), digest: digest.to_owned(), bytes: 1, program: false, part: 0 }
}

fn plan(
    file: &Dockerfile,
    stage: usize,
    start: StageStart,
    context: &[ContextFile],
) -> Result<StagePlan, DockerfileError> {
    Planner::new(file)?.stage(stage, start, context)
}

fn needed(file: &Dockerfile) -> Result<Vec<bool>, DockerfileError> {
    Planner::new(file)?.needed()
}

fn base(file: &Dockerfile, stage: usize) -> Result<StageBase, DockerfileError> {
    Planner::new(file)?.base(stage)
}

fn planned(text: &str, context: &[ContextFile]) -> StagePlan {
    plan(&parse(text).unwrap(), 0, StageStart::default(), context).unwrap()
}

fn refused(text: &str, line: usize, problem: &str) {
    let error = plan(&parse(text).unwrap(), 0, StageStart::default(), &[file("a", "1")]).unwrap_err();
    assert!(error.line == line && error.problem.text.contains(problem), "{error}");
}

fn change(plan: &StagePlan, step: usize) -> &MachineChange {
    match &plan.steps[step].act {
        StepEffect::Change(change) => change,
        other => panic!("no change: {other:?}"),
    }
}

#[test]
fn settings_gather_and_reach_commands() {
    let base = TemplateSettings { env: [("PATH".to_owned(), "/bin".to_owned())].into(), ..TemplateSettings::default() };
    let text = "FROM mini\nARG V=1\nENV PATH=/x:$PATH A=$V\nWORKDIR /srv\nWORKDIR app\nUSER ann\nRUN make\n\
                EXPOSE 80 9000-9001/tcp 53/udp\nCMD [\"run\"]\nENTRYPOINT start\nLABEL a=\"b c\"\n";
    let start = StageStart { settings: base, folders: Vec::new() };
    let plan = plan(&parse(text).unwrap(), 0, start, &[]).unwrap();
    let MachineChange { folders, verb: ChangeAction::Run(run) } = change(&plan, 5) else { panic!("no command") };
    assert_eq!(folders, &["/srv", "/srv/app"]);
    assert_eq!(run.argv, ["/bin/sh", "-c", "make"]);
    assert_eq!((run.cwd.as_deref(), run.user.as_deref()), (Some("/srv/app"), Some("ann")));
    assert_eq!((run.env["PATH"].as_str(), run.env["A"].as_str(), run.env["V"].as_str()), ("/x:/bin", "1", "1"));
    let TemplateSettings { env, workdir, user, entrypoint, cmd, started, ports, labels } = plan.settings;
    assert!(!started);
    assert!(!env.contains_key("V"), "arguments are for the build only");
    assert_eq!((workdir.as_deref(), user.as_deref()), (Some("/srv/app"), Some("ann")));
    assert_eq!((entrypoint.len(), cmd.len()), (3, 0), "an entrypoint resets the command");
    assert_eq!(ports.into_iter().collect::<Vec<_>>(), [80, 9000, 9001]);
    assert_eq!(labels["a"], "b c");
}

#[test]
fn files_go_where_they_are_meant() {
    let context = [file("a.txt", "1"), file("src/b", "2")];
    let text = "FROM mini\nWORKDIR /w\nCOPY a.txt there\nCOPY a.txt .\nCOPY src /d\nADD --chmod=600 --chown=1:2 . /e/\n\
                COPY <<x /f\n$V$$\nx\n";
    let plan = planned(text, &context);
    let place = |step| match &change(&plan, step).verb {
        ChangeAction::Place(place) => place.clone(),
        ChangeAction::Run(_) | ChangeAction::Take(_) => panic!("no files"),
    };
    assert_eq!((place(1).dest.as_str(), place(1).into_folder), ("/w/there", false));
    assert_eq!((place(2).dest.as_str(), place(2).into_folder), ("/w", true));
    assert_eq!((place(3).dest.as_str(), place(3).into_folder, place(3).items[0].name.as_str()), ("/d", true, "b"));
    assert_eq!((place(4).mode, place(4).owner.as_deref(), place(4).unpack), (Some(0o600), Some("1:2"), true));
    assert_eq!(place(4).items.len(), 2);
    assert_eq!(place(5).items[0].contents, PlacedContents::Text("$$\n".to_owned()));
}

#[test]
fn keys_depend_on_everything_before_and_on_contents() {
    let text = "FROM mini\nENV A=1\nRUN x\nCOPY a /a\n";
    let keys = |text: &str, context: &[ContextFile]| {
        let plan = planned(text, context);
        let mut before = "base".to_owned();
        let mut keys = Vec::new();
        for step in &plan.steps {
            if let StepEffect::Change(change) = &step.act {
                before = key(&before, change, context, "");
                keys.push(before.clone());
            }
        }
        keys
    };
    let first = keys(text, &[file("a", "1")]);
    assert_eq!(first, keys(text, &[file("a", "1")]));
    assert_eq!(first, keys(&text.replace("RUN x", "# note\nRUN \\\n x"), &[file("a", "1")]));
    let other_file = keys(text, &[file("a", "2")]);
    assert!(first[0] == other_file[0] && first[1] != other_file[1]);
    let other_env = keys(&text.replace("A=1", "A=2"), &[file("a", "1")]);
    assert!(first[0] != other_env[0] && first[1] != other_env[1]);
    assert_ne!(key("one", change(&planned(text, &[file("a", "1")]), 1), &[], ""), first[0]);
}

#[test]
fn refusals_name_the_line() {
    refused("FROM a\nCOPY b /b\n", 2, "does not exist in the build context");
    refused("FROM a\nCOPY a a /b\n", 2, "must end in /");
    refused("FROM a\nCOPY --chmod=9 a /b\n", 2, "octal");
    refused("FROM a\nEXPOSE 0\n", 2, "not a valid port");
    refused("FROM a\nEXPOSE 1-9999\n", 2, "ports");
    refused("FROM a\nENV A=${B\n", 2, "closed");
    let many: String = (0..300).map(|n| format!("ENV V{n}=1\n")).take(190).collect();
    assert!(plan(&parse(&format!("FROM a\n{many}")).unwrap(), 0, StageStart::default(), &[]).is_ok());
    refused(&format!("FROM a\nENV {}\n", (0..300).map(|n| format!("V{n}=1 ")).collect::<String>()), 2, "variables");
}

#[test]
fn from_may_use_arguments() {
    let from = |text: &str| base(&parse(text).unwrap(), 0).map(|base| base.name);
    assert_eq!(from("ARG V=mini\nFROM ${V}").unwrap(), "mini");
    assert_eq!(from("FROM ${V:-mini}").unwrap(), "mini");
    assert!(from("ARG V\nFROM $V").is_err());
}

#[test]
fn a_stage_that_nothing_takes_from_is_not_needed() {
    let text = "ARG B=second\nFROM a AS first\nFROM b AS second\nFROM c AS third\nFROM $B\nCOPY --from=first /x /y\n";
    let file = parse(text).unwrap();
    assert_eq!(needed(&file).unwrap(), [true, true, false, true]);
    assert_eq!(base(&file, 3).unwrap(), StageBase { name: "second".to_owned(), stage: Some(1) });
    // A number names no stage here, and a stage cannot be its own base.
    assert_eq!(base(&parse("FROM a\nFROM 0\n").unwrap(), 1).unwrap().stage, None);
    assert_eq!(base(&parse("FROM a AS a\n").unwrap(), 0).unwrap().stage, None);
}

#[test]
fn what_is_taken_from_a_stage_depends_on_all_of_it() {
    let text = "FROM a AS first\nFROM b\nWORKDIR /w\nARG V=lib\nCOPY --from=first --chown=1 bin ../usr/$V/* there/\n";
    let plan = plan(&parse(text).unwrap(), 1, StageStart::default(), &[]).unwrap();
    let taking = change(&plan, 2);
    let ChangeAction::Take(take) = &taking.verb else { panic!("nothing is taken") };
    assert_eq!((&take.from, take.dest.as_str(), take.into_folder), (&CopyFrom::Stage(0), "/w/there", true));
    assert_eq!(
        (take.sources.as_slice(), take.owner.as_deref()),
        (&["/bin".to_owned(), "/usr/lib/*".to_owned()][..], Some("1"))
    );
    let with = |stage: &str| key("before", taking, &[], stage);
    assert!(with("one") == with("one") && with("one") != with("two"));
}

/// Arguments that double twenty times, up to a megabyte.
fn doubling(keyword: &str) -> String {
    let doubled = (1..=20).map(|n| format!("{keyword} A{n}=$A{0}$A{0}\n", n - 1));
    format!("{keyword} A0=x\n{}", doubled.collect::<String>())
}

fn too_large(text: &str) {
    let file = parse(text).unwrap();
    let refused = Planner::new(&file).and_then(|mut planning| {
        planning.needed()?;
        for stage in 0..file.stages.len() {
            planning.stage(stage, StageStart::default(), &[])?;
            assert!(planning.budget.expander.spent() <= DOCKERFILE_EXPANDED_BYTES_MAX);
        }
        Ok(())
    });
    let error = refused.unwrap_err();
    assert_eq!(error.code(), "build.dockerfile_too_large", "{error}");
    assert!(error.to_string().contains(&DOCKERFILE_EXPANDED_BYTES_MAX.to_string()), "{error}");
}

#[test]
fn a_bomb_of_doubling_arguments_is_refused() {
    let copies: String = (0..200).map(|n| format!("ARG B{n}=$A20\n")).collect();
    too_large(&format!("{}{copies}FROM mini\n", doubling("ARG")));
    // A few large arguments, used in the names of many bases.
    let bases: String = (0..20).map(|n| format!("FROM a$A20 AS s{n}\n")).collect();
    let taken: String = (0..20).map(|n| format!("COPY --from=s{n} /x /y\n")).collect();
    too_large(&format!("{}{bases}FROM mini\n{taken}", doubling("ARG")));
}

#[test]
fn a_bomb_within_stages_is_refused() {
    let value = "x".repeat(100_000);
    let words = " $A".repeat(1000).replace(' ', "");
    too_large(&format!("FROM mini\nENV A={value}\nLABEL a={words}\n"));
    // Many texts over many stages, each within the limits.
    let (short, body) = ("x".repeat(10_000), "$A".repeat(50));
    let stages = format!("FROM mini\nARG A={short}\nCOPY <<f /f\n{body}\nf\n").repeat(5);
    assert!(plan(&parse(&stages).unwrap(), 4, StageStart::default(), &[]).is_ok());
    too_large(&stages.repeat(4));
    let one: String = (0..400).map(|n| format!(" B{n}=$A")).collect();
    let error = plan(&parse(&format!("FROM mini\nARG A={value}{one}\n")).unwrap(), 0, StageStart::default(), &[]);
    assert_eq!(error.unwrap_err().code(), "build.dockerfile_too_large");
}

#[test]
fn values_that_every_step_copies_are_short() {
    let long = "x".repeat(5000);
    refused(&format!("FROM a\nUSER {long}\n"), 2, "USER");
    refused(&format!("FROM a\nWORKDIR /{long}\n"), 2, "path");
    refused(&format!("FROM a\nWORKDIR /{0}\nWORKDIR {0}\n", "x".repeat(3000)), 3, "path");
    refused(&format!("FROM a\nSHELL [\"{long}\"]\n"), 2, "SHELL");
    refused(&format!("FROM a\nCOPY{} /x/\n", " a".repeat(DOCKERFILE_SOURCES_MAX + 1)), 2, "sources");
}

#[test]
fn files_of_the_context_cannot_be_copied_without_end() {
    let name = |n: usize| format!("{n:04}{}", "x".repeat(1000));
    let context: Vec<ContextFile> = (0..1000).map(|n| file(&name(n), "1")).collect();
    let text = format!("FROM a\n{}", format!("COPY{} /x/\n", " .".repeat(10)).repeat(10));
    let refused = plan(&parse(&text).unwrap(), 0, StageStart::default(), &context).unwrap_err();
    assert_eq!(refused.code(), "build.dockerfile_too_large", "{refused}");
}

#[test]
fn global_arguments_reach_stages_with_their_values() {
    let text = "ARG A=1\nARG B=$A-2\nARG C\nFROM mini\nARG B\nARG C\nENV D=$B${C-none}\n";
    assert_eq!(planned(text, &[]).settings.env["D"], "1-2none");
}
