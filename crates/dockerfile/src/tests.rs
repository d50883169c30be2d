//! Tests of the Dockerfile syntax.

use std::collections::BTreeMap;

use super::*;

fn steps(text: &str) -> Vec<Instruction> {
    let stage = parse(text).unwrap().stages.pop().unwrap();
    stage.steps.into_iter().map(|step| step.instruction).collect()
}

fn shell(text: &str) -> Instruction {
    Instruction::Run(CommandForm::Shell(text.to_owned()))
}

fn refused(text: &str, line: usize, problem: &str) {
    let error = parse(text).unwrap_err();
    assert_eq!(error.line, line, "{error}");
    assert!(error.problem.text.contains(problem), "{error}");
}

#[test]
fn lines_are_joined_and_comments_left_out() {
    let text = "# syntax=docker/dockerfile:1\n\n# note\nfrom mini\nRUN echo a \\\n  # inside\n\n  && echo b\n";
    let file = parse(text).unwrap().stages.remove(0);
    assert_eq!((file.base.as_str(), file.base_line), ("mini", 4));
    assert_eq!(file.steps[0].instruction, shell("echo a   && echo b"));
    assert_eq!((file.steps[0].line, file.steps[0].text.as_str()), (5, "RUN echo a && echo b"));
}

#[test]
fn line_ends_of_other_systems_do_no_harm() {
    assert_eq!(steps("FROM mini\r\nRUN a \\\r\n b\r\n"), [shell("a  b")]);
    let text = "FROM mini\r\nRUN <<EOF\r\necho 1\r\nEOF\r\n";
    assert_eq!(steps(text), [Instruction::Script("echo 1\n".to_owned())]);
}

#[test]
fn the_escape_character_can_be_chosen() {
    assert_eq!(steps("# escape=`\nFROM mini\nRUN a `\n b\\\n"), [shell("a  b\\")]);
    refused("# escape=x\nFROM mini\n", 1, "escape");
}

#[test]
fn commands_have_two_forms() {
    let text = "FROM mini\nRUN [\"a\", \"b c\"]\nRUN [ -f x ] && y\nCMD [\"x\"]\nENTRYPOINT y z\n";
    let exec = |argv: &[&str]| CommandForm::Exec(argv.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(
        steps(text),
        [
            Instruction::Run(exec(&["a", "b c"])),
            shell("[ -f x ] && y"),
            Instruction::Cmd(exec(&["x"])),
            Instruction::Entrypoint(CommandForm::Shell("y z".to_owned())),
        ]
    );
}

#[test]
fn here_documents_are_scripts_files_or_input() {
    let script = "FROM mini\nRUN <<END_1\n#!/bin/sh\necho \"$A\" # kept\n\nEND_1\nRUN done\n";
    assert_eq!(steps(script), [Instruction::Script("#!/bin/sh\necho \"$A\" # kept\n\n".to_owned()), shell("done")]);
    assert_eq!(steps("FROM mini\nRUN cat <<A >f\nx\nA\n"), [shell("cat <<A >f\nx\nA\n")]);
    let copy = "FROM mini\nCOPY <<a.txt <<-'b' /srv/\n1\na.txt\n\t2\n\tb\n";
    let Instruction::Transfer(found) = steps(copy).remove(0) else { panic!("no transfer") };
    let inline = |name: &str, body: &str, expand| CopySource::Inline { name: name.into(), body: body.into(), expand };
    assert_eq!(found.sources, [inline("a.txt", "1\n", true), inline("b", "2\n", false)]);
    refused("FROM mini\n\nRUN <<EOF\nx\n", 3, "not closed");
    assert_eq!(steps("FROM mini\nRUN cat <<<x\n"), [shell("cat <<<x")]);
}

#[test]
fn transfers_have_flags_and_lists() {
    let text = "FROM mini\nCOPY --chown=a:b --chmod=755 x y /z/\nADD [\"a b\", \"/c\"]\n";
    let [Instruction::Transfer(copy), Instruction::Transfer(add)] = &steps(text)[..] else { panic!("no transfers") };
    assert_eq!((copy.owner.as_deref(), copy.mode.as_deref(), copy.sources.len()), (Some("a:b"), Some("755"), 2));
    assert_eq!((add.kind, &add.sources[..]), (TransferKind::Add, &[CopySource::Path("a b".to_owned())][..]));
    refused("FROM mini\nCOPY x\n", 2, "destination");
    refused("FROM mini\nADD https://example.com/x /x\n", 2, "URL");
    refused("FROM mini\nCOPY --from= /x /x\n", 2, "--from");
    refused("FROM mini\nCOPY --parents x /x\n", 2, "--parents");
}

#[test]
fn pairs_have_two_forms() {
    let text = "FROM mini\nENV A=1 B=\"two words\" C=x\\ y\nENV D some text\nLABEL a.b=c\n";
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        steps(text),
        [
            Instruction::Env(vec![pair("A", "1"), pair("B", "\"two words\""), pair("C", "x\\ y")]),
            Instruction::Env(vec![pair("D", "some text")]),
            Instruction::Label(vec![pair("a.b", "c")]),
        ]
    );
    refused("FROM mini\nENV A\n", 2, "no value");
    refused("FROM mini\nENV A=1 B\n", 2, "NAME=VALUE");
}

#[test]
fn stages_have_names_and_numbers() {
    let text = "FROM a AS Build\nRUN x\nFROM b\nCOPY --from=BUILD /x /y\nCOPY --from=0 /x /z\n";
    let file = parse(text).unwrap();
    let bases: Vec<_> = file.stages.iter().map(|stage| (stage.base.as_str(), stage.name.as_deref())).collect();
    assert_eq!(bases, [("a", Some("build")), ("b", None)]);
    let from = |step: usize| match &file.stages[1].steps[step].instruction {
        Instruction::Transfer(transfer) => transfer.from.clone(),
        other => panic!("no transfer: {other:?}"),
    };
    assert_eq!((from(0), from(1)), (Some(CopyFrom::Stage(0)), Some(CopyFrom::Stage(0))));
    // If two stages have the same name, the later one wins.
    let file = parse("FROM a AS x\nFROM b AS x\nFROM c\nCOPY --from=x /x /y\n").unwrap();
    let Instruction::Transfer(transfer) = &file.stages[2].steps[0].instruction else { panic!("no transfer") };
    assert_eq!(transfer.from, Some(CopyFrom::Stage(1)));
    // A name that is no stage is a template or an image.
    let file = parse("FROM a AS x\nCOPY --from=R.example/y:1 /x /y\n").unwrap();
    let Instruction::Transfer(transfer) = &file.stages[0].steps[0].instruction else { panic!("no transfer") };
    assert_eq!(transfer.from, Some(CopyFrom::Named("R.example/y:1".to_owned())));
    refused("FROM a AS x\nCOPY --from=x /x /y\n", 2, "no earlier stage");
    refused("FROM a\nFROM b\nCOPY --from=1 /x /y\n", 3, "no earlier stage");
    refused("FROM a\nFROM b\nADD --from=0 /x /y\n", 3, "--from");
    refused("FROM a\nFROM b\nCOPY --from=0 <<f /y\nx\nf\n", 3, "here-document");
}

#[test]
fn what_is_not_supported_names_its_line() {
    refused("", 1, "no FROM");
    refused("RUN x\n", 1, "before FROM");
    refused(&"FROM a\n".repeat(500), 202, "steps");
    refused("FROM --platform=linux/arm64 a\n", 1, "platform");
    refused("FROM a\nFLY x\n", 2, "unknown instruction");
    refused("FROM a\nONBUILD RUN x\n", 2, "ONBUILD");
    refused("FROM a\nRUN --mount=type=secret,id=x y\n", 2, "--mount");
    refused("FROM a\nRUN\n", 2, "argument");
    refused(&format!("FROM a\n{}", "RUN x\n".repeat(2000)), 202, "steps");
    assert_eq!(steps("FROM a\nRUN --mount=type=cache,target=/c y\n"), [shell("y")]);
    assert_eq!(steps("FROM a\nVOLUME /x\nSTOPSIGNAL 9\n"), [Instruction::Ignored, Instruction::Ignored]);
}

#[test]
fn arguments_before_from_are_its_own() {
    let file = parse("ARG V=1 W\nFROM mini:$V\nARG V\n").unwrap();
    let names: Vec<_> = file.globals.iter().map(|argument| argument.name.as_str()).collect();
    assert_eq!((names, file.stages[0].base.as_str()), (vec!["V", "W"], "mini:$V"));
    refused("ARG a-b\nFROM x\n", 1, "argument");
}

#[test]
fn variables_are_replaced() {
    let env = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("E".to_owned(), String::new())]);
    let value = |name: &str| env.get(name).map(String::as_str);
    let expand = |text: &str| Expander::default().expand(text, &value);
    let check = |text: &str, expected: &str| assert_eq!(expand(text).as_deref(), Ok(expected), "{text}");
    check("$A-${A}x$B", "1-1x");
    check("${B:-two} ${E:-three} ${E-four} ${A:+five} ${E:+six} ${E+seven}", "two three  five  seven");
    check("${B:-${A}${A}} ${B+x} ${E+é} ${A}é", "11  é 1é");
    check("\"$A\" '$A' \\$A $", "1 $A $A $");
    check("a\\ b\"c\\n\"", "a bc\\n");
    for bad in ["${A", "'x", "${A/x/y}", "${Aé}", "${}", "${:-x}", "${A:x}"] {
        assert!(expand(bad).is_err(), "{bad}");
    }
    assert_eq!(Expander::default().expand_raw("\"$A\" '$A' \\$A \\n", &value).unwrap(), "\"1\" '1' $A \\n");
    let mut nested = "x".to_owned();
    for _ in 0..40 {
        nested = format!("${{N:-{nested}}}");
    }
    assert!(expand(&nested).is_err());
}

#[test]
fn expanded_text_never_exceeds_its_budget() {
    let long = "x".repeat(1024 * 1024);
    let mut expander = Expander::default();
    let (mut made, mut refused) = (0, None);
    for _ in 0..1000 {
        match expander.expand("$V${V}${N:-$V}", &|name| (name == "V").then_some(long.as_str())) {
            Ok(text) => made += text.len(),
            Err(problem) => refused = Some(problem),
        }
        assert!(made <= expander.spent() && expander.spent() <= DOCKERFILE_EXPANDED_BYTES_MAX);
    }
    assert_eq!(refused.map(|problem| problem.code), Some("build.dockerfile_too_large"));
}

#[test]
fn nonsense_is_refused_and_never_worse() {
    for text in
        ["\u{0}", "FROM", "FROM \\", "FROM a\nRUN <<", "FROM a\nCOPY [ x", "\u{feff}FROM a", "FROM a\nENV =", "\\"]
    {
        let _ = parse(text);
    }
    assert!(parse("\u{feff}FROM a").is_ok());
}
