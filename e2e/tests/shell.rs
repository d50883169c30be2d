//! `pandastack shell` in a real terminal window. tmux draws the window, and a local bash in it
//! starts the program and gets its exit code.

use std::{
    path::Path,
    process::{Command, Output},
};

use pandastack_e2e::templates::{clean, client, create};
use pandastack_testbed::{DataFolder, PATIENCE, TestServer, built, wait_for};
use tempfile::TempDir;

/// A window with its own tmux server, which ends when this is dropped.
struct TmuxWindow {
    folder: TempDir,
}

impl TmuxWindow {
    /// Opens a window with a bash that finds the program and its server.
    fn open(server: &TestServer, (rows, columns): (u16, u16)) -> Self {
        let window = Self { folder: tempfile::tempdir().unwrap() };
        let (rows, columns) = (rows.to_string(), columns.to_string());
        window.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, "env", "bash", "--norc", "--noprofile"]);
        // The status line would take a row of the window.
        window.tmux(&["set-option", "-g", "status", "off"]);
        window.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
        window.line("PS1='local> '");
        let programs = built("pandastack").parent().unwrap().display().to_string();
        window.line(&format!("export PATH={programs}:$PATH HOME={}", window.folder.path().display()));
        window.line(&format!("export PANDASTACK_API_URL={} PANDASTACK_API_KEY={}", server.url, server.key));
        window
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.env("TMUX_TMPDIR", self.folder.path()).env_remove("TMUX");
        let output = command.args(["-L", "shell", "-f", "/dev/null"]).args(words).output().expect("tmux is installed");
        assert!(output.status.success(), "tmux {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Types text as it is.
    fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses a key, such as `Enter`, `Tab` or `C-c`.
    fn key(&self, name: &str) {
        self.tmux(&["send-keys", name]);
    }

    fn line(&self, text: &str) {
        self.text(text);
        self.key("Enter");
    }

    /// Everything the window shows, with lines that it had to wrap as one.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p", "-J"]).stdout).into_owned()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let shown = async || is_so(&self.shown()).then_some(());
        let seen = tokio::time::timeout(PATIENCE, wait_for(what, PATIENCE * 2, shown)).await;
        assert!(seen.is_ok(), "{what}; the window shows:\n{}", self.shown());
    }

    /// Waits for a line that is exactly this text.
    async fn until_line(&self, text: &str) {
        self.until(&format!("the line {text:?}"), |shown| shown.lines().any(|line| line.trim_end() == text)).await;
    }

    /// Waits until the last line ends so: a prompt.
    async fn until_prompt(&self, end: &str) {
        let is_last = |shown: &str| shown.trim_end().ends_with(end);
        self.until(&format!("a prompt that ends with {end:?}"), is_last).await;
    }
}

impl Drop for TmuxWindow {
    fn drop(&mut self) {
        let folder: &Path = self.folder.path();
        let mut command = Command::new("tmux");
        let _ = command.env("TMUX_TMPDIR", folder).args(["-L", "shell", "kill-server"]).output();
    }
}

#[tokio::test]
async fn a_shell_in_a_window_has_its_size_its_signals_and_its_exit_code() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let sandbox = create(&client, "mini").await;
    let window = TmuxWindow::open(&server, (33, 91));

    // The tab key completes the id, so the program below starts only if the shell could ask.
    window.line("source <(pandastack completion bash); clear");
    window.until_prompt("local>").await;
    window.text(&format!("pandastack shell {}", &sandbox.id[..6]));
    window.key("Tab");
    window.until("the whole id", |shown| shown.contains(&format!("shell {}", sandbox.id))).await;
    window.key("Enter");
    window.until_prompt("#").await;
    window.line("stty size");
    window.until_line("33 91").await;

    window.tmux(&["resize-window", "-x", "77", "-y", "22"]);
    window.line("until [ \"$(stty size)\" = '22 77' ]; do sleep 0.1; done; echo resized-$((1+1))");
    window.until_line("resized-2").await;

    // Ctrl-C is for the program in the sandbox. The program itself says that it runs: a Ctrl-C that
    // reaches bash between two commands of its line would not stop the second.
    window.line("sh -c 'echo sleeping; exec sleep 4321'");
    window.until_line("sleeping").await;
    window.key("C-c");
    window.line("echo interrupted=$?");
    window.until_line("interrupted=130").await;

    window.line("exit 7");
    window.until_prompt("local>").await;
    window.line("echo code=$?");
    window.until_line("code=7").await;
    // The terminal is as it was: it reads whole lines.
    window.line("stty --all | tr ' ' '\\n' | grep --line-regexp icanon");
    window.until_line("icanon").await;
    other_shells_complete(&window, &sandbox.id).await;
    clean(&client).await;
}

/// The tab key completes the id in other shells too: as a line of their set-up, and for zsh also as
/// a file of a package.
async fn other_shells_complete(window: &TmuxWindow, id: &str) {
    let package = "mkdir ~/c; pandastack completion zsh > ~/c/_pandastack; fpath+=(~/c); autoload compinit; compinit";
    for (shell, set_up, prompt) in [
        ("PS1='zsh> ' zsh -f", "source <(pandastack completion zsh)", "zsh>"),
        ("PS1='zsh> ' zsh -f", package, "zsh>"),
        ("fish --no-config", "function fish_prompt; echo 'fish> '; end; pandastack completion fish | source", "fish>"),
    ] {
        window.line("clear");
        window.line(shell);
        window.line(&format!("{set_up}; clear"));
        window.until("a clear window", |shown| shown.trim() == prompt).await;
        window.text(&format!("pandastack sandbox get {}", &id[..6]));
        window.key("Tab");
        window.until("the whole id", |shown| shown.contains(&format!("get {id}"))).await;
        window.line(" -o name");
        window.until_line(id).await;
        window.line("exit");
        window.until_prompt("local>").await;
    }
}
