//! `pandastack template build` on the command line: what it sends, what it shows meanwhile, and how
//! it ends.

use std::{fs, path::Path, process::Output};

use pandastack_e2e::{
    registry::{LocalRegistry, PASSWORD, USER},
    templates::{clean, client, command, create, run},
};
use pandastack_testbed::{DataFolder, TestServer};
use serde_json::Value;

/// Runs `template build` with arguments. Returns whether it succeeded and its output on both
/// streams.
fn build(server: &TestServer, words: &[&str], variables: &[(&str, &str)]) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command(server, &[&["template", "build"], words].concat(), variables);
    (status.success(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn put(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn a_folder_is_sent_without_what_is_ignored_and_the_build_is_shown() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let folder = tempfile::tempdir().unwrap();
    let (context, dockerfile) = (folder.path().join("app"), folder.path().join("elsewhere.txt"));
    for (name, text) in
        [("kept.txt", "kept\n"), ("secret.env", "hush\n"), ("sub/a.log", "log\n"), ("sub/b.txt", "deep\n")]
    {
        put(&context, name, text);
    }
    put(&context, ".dockerignore", "*.env\n**/*.log\n");
    let steps =
        "FROM mini\nWORKDIR /srv/app\nCOPY . .\nRUN find . -type f | sort | xargs\nCMD [\"sleep\", \"100000\"]\n";
    fs::write(&dockerfile, steps).unwrap();
    let (context, dockerfile) = (context.to_str().unwrap(), dockerfile.to_str().unwrap());

    let (good, printed, shown) = build(&server, &["mine", "-f", dockerfile, "--context", context], &[]);
    assert!(good && printed.is_empty(), "{printed} {shown}");
    for line in
        ["step 2/4: COPY . .", "step 3/4: RUN find", "./.dockerignore ./kept.txt ./sub/b.txt", "the command runs"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.trim_end().ends_with("template mine is ready"), "{shown}");
    let sandbox = create(&client, "mine").await;
    assert_eq!(run(&client, &sandbox.id, "cat kept.txt sub/b.txt").await, "kept\ndeep\n");
    assert_eq!(client.processes(&sandbox.id).await.unwrap().len(), 1);

    // Again: refused, then replaced, with JSON output, and without its command.
    let words = ["mine", "-f", dockerfile, "--context", context, "--json"];
    let (good, printed, shown) = build(&server, &words, &[]);
    assert!(!good && printed.is_empty() && shown.contains("template mine already exists"), "{printed} {shown}");
    let (good, printed, shown) = build(&server, &[&words[..], &["--replace", "--no-start"]].concat(), &[]);
    let ended: Value = serde_json::from_str(&printed).unwrap();
    assert!(good && ended["status"] == "done" && ended["name"] == "mine", "{printed} {shown}");
    assert!(shown.contains("step 3/4 CACHED") && shown.contains("the template's command is not started"), "{shown}");
    let quiet = create(&client, "mine").await;
    assert_eq!(client.processes(&quiet.id).await.unwrap().len(), 0);

    // The failing step is named, and the command fails.
    fs::write(dockerfile, "FROM mine\nRUN echo on the way; exit 7\n").unwrap();
    let (good, printed, shown) = build(&server, &["broken", "-f", dockerfile, "--json"], &[]);
    let ended: Value = serde_json::from_str(&printed).unwrap();
    let error = "step 1/1 (line 2: RUN echo on the way; exit 7) failed: exit status 7";
    assert!(!good && ended["status"] == "failed" && ended["error"] == error, "{printed} {shown}");
    assert!(shown.contains("on the way\n") && shown.contains(&format!("build failed: {error}")), "{shown}");
    let (good, printed, shown) = build(&server, &["broken", "-f", "/nowhere/Dockerfile"], &[]);
    assert!(!good && printed.is_empty() && shown.contains("read /nowhere/Dockerfile"), "{shown}");
    clean(&client).await;
}

#[tokio::test]
async fn an_image_is_asked_for_with_the_password_of_the_environment() {
    let registry = LocalRegistry::start();
    registry.push().await;
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--image-allow-private"]).unwrap();
    let image = |tag: &str| format!("{}/tiny:{tag}", registry.address);
    let (there, missing) = (image("1"), image("2"));
    let asking = ["tiny", "--image", &there, "--size-mb", "64", "--memory-mb", "128"];
    let (good, _, shown) = build(&server, &asking, &[]);
    assert!(!good && shown.contains("template.image_denied"), "{shown}");
    let known = [&asking[..], &["--registry-user", USER]].concat();
    let (good, _, shown) = build(&server, &known, &[]);
    assert!(!good && shown.contains("PANDASTACK_REGISTRY_PASSWORD"), "{shown}");
    let (good, _, shown) = build(&server, &known, &[("PANDASTACK_REGISTRY_PASSWORD", "guess")]);
    assert!(!good && shown.contains("template.image_denied"), "{shown}");
    let right = [("PANDASTACK_REGISTRY_PASSWORD", PASSWORD)];
    // With access, the error is that the image does not exist.
    let words = ["tiny", "--image", &missing, "--registry-user", USER];
    let (good, _, shown) = build(&server, &words, &right);
    assert!(!good && shown.contains("template.image_not_found") && !shown.contains(PASSWORD), "{shown}");
    // For a Dockerfile, `--registry` must name the registry of the credentials.
    let folder = tempfile::tempdir().unwrap();
    let dockerfile = folder.path().join("Dockerfile");
    fs::write(&dockerfile, format!("FROM {missing}\n")).unwrap();
    let words = ["tiny", "-f", dockerfile.to_str().unwrap(), "--registry-user", USER];
    let (good, _, shown) = build(&server, &words, &right);
    assert!(!good && shown.contains("must name its registry"), "{shown}");
    let (good, _, shown) = build(&server, &[&words[..], &["--registry", &registry.address]].concat(), &right);
    assert!(!good && shown.contains("template.image_not_found"), "{shown}");
    let (good, _, shown) = build(&server, &[&words[..], &["--registry", "other.example"]].concat(), &right);
    assert!(!good && shown.contains("template.image_denied"), "{shown}");
    clean(&client(&server)).await;
}
