//! Template builds on real machines: a Dockerfile and its cache, a failing step, a snapshot, and a
//! server that dies meanwhile.

use std::{path::Path, process::Command};

use pandastack_client::{
    BuildForm, Client,
    wire::{Build, ExecRequest},
};
use pandastack_e2e::templates::{self, clean, cli, client, command, create, ended, fields, run};
use pandastack_testbed::{DataFolder, TestServer};
use serde_json::Value;

const DOCKERFILE: &str = "\
ARG BASE=mini
FROM ${BASE}
ENV GREETING=\"hello there\" PATH=/opt/tools:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /srv/app
COPY --chmod=600 notes.txt ./
COPY tools /opt/tools
COPY --chown=nobody <<config.ini /srv/app/
greeting=$GREETING
config.ini
RUN echo ann:x:4321:4321::/home/ann:/bin/sh >> /etc/passwd && chown 4321 /srv/app
RUN <<EOF
set -e
greet > said.txt
echo made on $(uname -s)
EOF
ADD data.tar.gz /data/
USER ann
EXPOSE 8080
CMD [\"python3\", \"-m\", \"http.server\", \"8080\"]
";

#[tokio::test]
async fn a_dockerfile_becomes_a_template_and_its_unchanged_steps_are_not_run_again() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let folder = tempfile::tempdir().unwrap();
    context(folder.path());

    let (built, log) = cli_build(&server, "demo", folder.path());
    assert_eq!(built["status"], "done", "{log}");
    assert!(log.contains("made on Linux") && log.contains("step 7/11: RUN") && !log.contains("CACHED"), "{log}");

    let sandbox = create(&client, "demo").await;
    assert_eq!(sandbox.metadata["port.8080"], "exposed");
    // Its command runs already, with its user and folder, here and in every fork.
    assert!(log.contains("the command listens on port 8080"), "{log}");
    let asking = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8080/said.txt\").read())'";
    assert_eq!(run(&client, &sandbox.id, asking).await, "b'hello there\\n'\n");
    let processes = client.processes(&sandbox.id).await.unwrap();
    let started: Vec<_> = processes.iter().map(|process| (process.tag.as_deref(), process.status.as_str())).collect();
    assert_eq!(started, [(Some("template.start"), "running")]);
    let said = run(&client, &sandbox.id, "pwd; id -un; echo $GREETING; cat said.txt config.ini; greet").await;
    assert_eq!(said, "/srv/app\nann\nhello there\nhello there\ngreeting=hello there\nhello there\n");
    let as_root = ExecRequest {
        cmd: Some("cat notes.txt; stat -c %a:%U notes.txt config.ini; cat /data/inside".into()),
        user: Some("root".into()),
        ..ExecRequest::default()
    };
    let said = client.exec(&sandbox.id, &as_root).await.unwrap();
    assert_eq!(said.stdout, "some notes\n600:root\n644:nobody\npacked\n", "{}", said.stderr);
    // Layers sealed from a sandbox keep the defaults.
    let fork = client.fork(&sandbox.id, &Default::default()).await.unwrap().sandbox;
    assert_eq!(run(&client, &fork.id, "pwd; id -un; echo $GREETING").await, "/srv/app\nann\nhello there\n");
    assert_eq!(run(&client, &fork.id, asking).await, "b'hello there\\n'\n");

    // A change in a late step: earlier steps come from the cache.
    std::fs::write(folder.path().join("Dockerfile"), DOCKERFILE.replace("made on", "made again on")).unwrap();
    let (second, log) = cli_build(&server, "demo-2", folder.path());
    assert_eq!(second["status"], "done", "{log}");
    for step in ["step 3/11 CACHED", "step 4/11 CACHED", "step 5/11 CACHED", "step 6/11 CACHED", "made again on Linux"]
    {
        assert!(log.contains(step), "{step}: {log}");
    }
    let replayed = cli(&server, &["template", "logs", second["id"].as_str().unwrap()]);
    assert_eq!(replayed.lines().collect::<Vec<_>>(), log.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>());

    let third = build(&client, "broken", "FROM demo\nRUN echo fine\nRUN echo oh no >&2; exit 7\n").await;
    assert_eq!(third.error.as_deref(), Some("step 2/2 (line 3: RUN echo oh no >&2; exit 7) failed: exit status 7"));
    assert!(cli(&server, &["template", "logs", &third.id]).contains("oh no"));

    // Sandboxes of a deleted template keep running.
    cli(&server, &["template", "delete", "demo"]);
    assert_eq!(run(&client, &sandbox.id, "cat said.txt").await, "hello there\n");
    assert_eq!(client.get_template("demo").await.unwrap_err().status(), Some(404));
    let names: Vec<_> = client.templates().await.unwrap().into_iter().map(|template| template.name).collect();
    assert!(names.contains(&"demo-2".to_owned()) && !names.contains(&"broken".to_owned()), "{names:?}");
    clean(&client).await;
}

#[tokio::test]
async fn a_snapshot_becomes_a_template_with_everything_that_ran() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let asking = client(&server);
    let source = create(&asking, "mini").await;
    let pid = run(&asking, &source.id, "setsid sleep 100000 >/dev/null 2>&1 & echo $!; echo kept > /srv/mark").await;
    let snapshot = asking.snapshot(&source.id).await.unwrap();
    let form = BuildForm { fields: fields(&[("name", "frozen"), ("from_snapshot", &snapshot.id)]), files: Vec::new() };
    let made = ended(&asking, asking.build_template(form).await.unwrap()).await;
    assert_eq!(made.status, "done", "{made:?}");
    asking.delete_snapshot(&snapshot.id).await.unwrap();
    asking.delete(&source.id).await.unwrap();
    // It survives a restart, too.
    drop(asking);
    assert_eq!(server.stop().unwrap(), Some(0));
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let sandbox = create(&client, "frozen").await;
    let said = run(&client, &sandbox.id, &format!("cat /srv/mark; kill -0 {} && echo alive", pid.trim())).await;
    assert_eq!(said, "kept\nalive\n");
    clean(&client).await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_build_cleans_up_after_it() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let asking = client(&server);
    let form = fields(&[("name", "cut"), ("dockerfile", "FROM mini\nRUN echo first\nRUN echo second; sleep 600\n")]);
    let begun = asking.build_template(BuildForm { fields: form, files: Vec::new() }).await.unwrap();
    let mut log = asking.build_log(&begun.id, true).await.unwrap();
    while log.next().await.unwrap().unwrap() != "second" {}
    server.kill().unwrap();
    drop((log, asking));

    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let found = client.get_build(&begun.id).await.unwrap();
    assert_eq!(found.status, "failed");
    assert!(found.error.unwrap().contains("stopped during the build"));
    assert!(cli(&server, &["template", "logs", &begun.id]).contains("second"));
    // The finished step is still in the cache, and nothing else is left.
    let again = build(&client, "cut", "FROM mini\nRUN echo first\n").await;
    assert_eq!(again.status, "done", "{again:?}");
    assert!(cli(&server, &["template", "logs", &again.id]).contains("step 1/1 CACHED"));
    clean(&client).await;
}

#[tokio::test]
async fn a_root_file_system_is_unpacked_in_a_machine_and_booted() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let folder = tempfile::tempdir().unwrap();
    let script = "set -e; mkdir -p root/usr/bin root/usr/lib64 root/usr/lib/x86_64-linux-gnu root/etc; cd root; \
        ln -s usr/bin bin; ln -s usr/lib lib; ln -s usr/lib64 lib64; cp -L /bin/sh usr/bin/sh; cp -L /bin/cat \
        usr/bin/cat; \
        cp -L /lib64/ld-linux-x86-64.so.2 usr/lib64/; cp -L /lib/x86_64-linux-gnu/libc.so.6 usr/lib/x86_64-linux-gnu/; \
        echo ours > etc/motd; ln -s ../../../../etc/shadow etc/outside; tar -czf ../root.tgz .";
    let packed = Command::new("sh").args(["-c", script]).current_dir(folder.path()).status().unwrap();
    assert!(packed.success());
    let file = folder.path().join("root.tgz");
    let words = ["--rootfs", file.to_str().unwrap(), "--size-mb", "64", "--memory-mb", "128"];
    cli(&server, &[&["template", "build", "tiny"][..], &words].concat());
    let sandbox = create(&client, "tiny").await;
    assert_eq!((sandbox.memory_mb, run(&client, &sandbox.id, "cat /etc/motd").await), (128, "ours\n".to_owned()));
    let on_top = build(&client, "on-top", "FROM tiny\nRUN echo more >> /etc/motd\n").await;
    assert_eq!(on_top.status, "done", "{on_top:?}");

    std::fs::write(&file, "no archive").unwrap();
    let refused = command(&server, &[&["template", "build", "junk"][..], &words].concat(), &[]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("build failed: unpacking failed: exit status 2"), "{said}");
    clean(&client).await;
}

#[tokio::test]
async fn a_later_stage_takes_files_from_an_earlier_one() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let dockerfile = "FROM mini AS made\nENV FROM_THERE=yes\nWORKDIR /out\n\
        RUN mkdir -p sub/deep && echo one > sub/a.txt && echo two > sub/deep/b.txt && ln -s a.txt sub/link && \
        printf '#!/bin/sh\\necho a tool\\n' > tool && chmod 751 tool && chown 77 tool sub/a.txt && touch x.log y.log \
        z.txt\n\
        FROM mini AS unused\nRUN exit 1\n\
        FROM made AS more\nRUN echo $FROM_THERE > /out/more\n\
        FROM mini\nCOPY --from=made /out/sub /srv/sub/\nCOPY --from=0 --chown=5:6 out/tool /usr/local/bin/tell\n\
        COPY --from=more /out/more /out/*.log /logs/\nRUN tell > /srv/told\n";
    let made = build(&client, "staged", dockerfile).await;
    let log = cli(&server, &["template", "logs", &made.id]);
    assert_eq!(made.status, "done", "{log}");
    let sandbox = create(&client, "staged").await;
    let line = "cat /srv/told /logs/more; cd /srv/sub; cat link deep/b.txt; stat -c %a:%u:%g a.txt \
        /usr/local/bin/tell; \
        stat -c %a /tmp; ls /logs; ls -a /tmp | grep -c pandastack || true; ls /out 2>&1 | wc -l; echo \
        ${FROM_THERE-no}";
    let said = run(&client, &sandbox.id, line).await;
    let plain = create(&client, "mini").await;
    let tmp = run(&client, &plain.id, "stat -c %a /tmp").await;
    let expected = format!("a tool\nyes\none\ntwo\n644:0:0\n751:5:6\n{tmp}more\nx.log\ny.log\n0\n1\nno\n");
    assert_eq!(said, expected, "{log}");
    // Unchanged stages are not built again. Stages that copy from a changed one are.
    let again = build(&client, "staged-2", &dockerfile.replace("echo two", "echo three")).await;
    assert_eq!(again.status, "done", "{again:?}");
    let log = cli(&server, &["template", "logs", &again.id]);
    assert!(!log.contains("CACHED"), "{log}");
    let third = build(&client, "staged-3", dockerfile).await;
    assert_eq!(third.status, "done", "{third:?}");
    let log = cli(&server, &["template", "logs", &third.id]);
    assert!(log.matches("CACHED").count() == 6 && !log.contains("unused"), "{log}");
    let missing = build(&client, "missing", "FROM mini AS a\nRUN true\nFROM mini\nCOPY --from=a /nowhere /x\n").await;
    assert!(missing.error.as_deref().is_some_and(|error| error.contains("line 4: COPY --from=a")), "{missing:?}");
    clean(&client).await;
}

fn context(folder: &Path) {
    std::fs::write(folder.join("Dockerfile"), DOCKERFILE).unwrap();
    std::fs::write(folder.join("notes.txt"), "some notes\n").unwrap();
    std::fs::create_dir(folder.join("tools")).unwrap();
    std::fs::write(folder.join("tools/greet"), "#!/bin/sh\necho \"$GREETING\"\n").unwrap();
    std::fs::write(folder.join("inside"), "packed\n").unwrap();
    let packed = Command::new("tar").args(["-czf", "data.tar.gz", "inside"]).current_dir(folder).status().unwrap();
    assert!(packed.success());
}

async fn build(client: &Client, name: &str, dockerfile: &str) -> Build {
    templates::build(client, &[("name", name), ("dockerfile", dockerfile)]).await
}

/// Builds through the command line, and returns the build and its log.
fn cli_build(server: &TestServer, name: &str, folder: &Path) -> (Value, String) {
    let output = command(server, &["template", "build", name, "--context", folder.to_str().unwrap(), "--json"], &[]);
    let log = String::from_utf8(output.stderr).unwrap();
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{log}")), log)
}
