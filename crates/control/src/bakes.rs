//! Templates that this server makes while it serves, or could not make. They are listed, and a
//! create from one says how far it is. Whoever makes them tells this board; it makes nothing.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pandastack_model::{Fault, FaultKind, TemplateName};
use tokio::time::Instant;

use crate::limits::PENDING_TEMPLATES_MAX;

/// When a client may ask again for a template that is being made. Bakes take minutes.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The board of templates in the making. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct TemplateBakes(Arc<Mutex<Vec<BoardEntry>>>);

/// A template in the making, with the size that it will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingTemplate {
    pub name: TemplateName,
    /// Other names that it will have.
    pub aliases: Vec<TemplateName>,
    pub cpus: u8,
    pub memory_mib: u64,
    pub disk_mib: u64,
}

/// How far a template is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BakeState {
    /// Others are made before it.
    Waiting,
    Baking {
        so_far: Duration,
        step: String,
    },
    /// Nobody will try again by itself.
    Failed,
}

/// A template in the making, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingView {
    pub template: PendingTemplate,
    pub state: BakeState,
}

#[derive(Debug)]
struct BoardEntry {
    template: PendingTemplate,
    progress: BakeProgressMark,
}

#[derive(Debug)]
enum BakeProgressMark {
    Waiting,
    Baking { since: Instant, step: String },
    Failed,
}

impl TemplateBakes {
    /// Adds a template that will be made. More than the board holds are made without being shown.
    pub fn add(&self, template: PendingTemplate) {
        let mut board = self.board();
        if board.len() < PENDING_TEMPLATES_MAX {
            board.push(BoardEntry { template, progress: BakeProgressMark::Waiting });
        }
    }

    /// Records the step that a template is at. The first one begins its time.
    pub fn step(&self, name: &TemplateName, step: &str) {
        self.change(name, |mark| {
            let since = match mark {
                BakeProgressMark::Baking { since, .. } => *since,
                BakeProgressMark::Waiting | BakeProgressMark::Failed => Instant::now(),
            };
            *mark = BakeProgressMark::Baking { since, step: step.to_owned() };
        });
    }

    /// Removes a template: the host has it now, or nobody will make it.
    pub fn remove(&self, name: &TemplateName) {
        self.board().retain(|entry| entry.template.name != *name);
    }

    /// Records that a template could not be made.
    pub fn fail(&self, name: &TemplateName) {
        self.change(name, |mark| *mark = BakeProgressMark::Failed);
    }

    /// Lists the templates in the making, in the order in which they are made.
    pub(crate) fn pending(&self) -> Vec<PendingView> {
        let view = |BoardEntry { template, progress }: &BoardEntry| PendingView {
            template: template.clone(),
            state: match progress {
                BakeProgressMark::Waiting => BakeState::Waiting,
                BakeProgressMark::Baking { since, step } => {
                    BakeState::Baking { so_far: since.elapsed(), step: step.clone() }
                }
                BakeProgressMark::Failed => BakeState::Failed,
            },
        };
        self.board().iter().map(view).collect()
    }

    fn change(&self, name: &TemplateName, change: impl FnOnce(&mut BakeProgressMark)) {
        if let Some(entry) = self.board().iter_mut().find(|entry| entry.template.name == *name) {
            change(&mut entry.progress);
        }
    }

    fn board(&self) -> MutexGuard<'_, Vec<BoardEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingView {
    /// Tells whether a request means this template.
    pub fn is_named(&self, name: &str) -> bool {
        [&self.template.name].into_iter().chain(&self.template.aliases).any(|own| own.as_str() == name)
    }

    /// The state in one word, for programs.
    pub fn status(&self) -> &'static str {
        match self.state {
            BakeState::Waiting => "waiting",
            BakeState::Baking { .. } => "baking",
            BakeState::Failed => "failed",
        }
    }

    /// The state for people.
    pub fn description(&self) -> String {
        match &self.state {
            BakeState::Waiting => "waits to be baked".to_owned(),
            BakeState::Baking { so_far, step } => {
                format!("is being baked, {} s so far ({step})", so_far.as_secs())
            }
            BakeState::Failed => "could not be baked; the server's log says why".to_owned(),
        }
    }

    /// Why nothing starts from it now. A bake that goes on is a busy server: the request is right,
    /// and the same one succeeds later, which 503 with `Retry-After` says.
    pub fn fault(&self) -> Fault {
        let (name, said) = (&self.template.name, self.description());
        match self.state {
            BakeState::Waiting | BakeState::Baking { .. } => {
                let text = format!("template {name} {said}; try again later");
                Fault::new(FaultKind::Busy, "template.baking", text).with_retry_after(RETRY_AFTER)
            }
            BakeState::Failed => {
                let text = format!("template {name} {said}; its operator runs: pandastack template bake {name}");
                Fault::new(FaultKind::Conflict, "template.bake_failed", text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(name: &str, aliases: &[&str]) -> PendingTemplate {
        let name_of = |name: &str| name.parse().unwrap();
        let aliases = aliases.iter().map(|alias| name_of(alias)).collect();
        PendingTemplate { name: name_of(name), aliases, cpus: 1, memory_mib: 256, disk_mib: 1024 }
    }

    fn only(board: &TemplateBakes) -> PendingView {
        let [one] = <[PendingView; 1]>::try_from(board.pending()).unwrap();
        one
    }

    #[tokio::test(start_paused = true)]
    async fn a_template_is_shown_from_its_announcement_to_its_end() {
        let board = TemplateBakes::default();
        let base = template("base", &["ubuntu-24.04"]);
        board.add(base.clone());
        assert!(only(&board).is_named("base") && only(&board).is_named("ubuntu-24.04") && !only(&board).is_named("b"));
        assert_eq!((only(&board).status(), only(&board).fault().code), ("waiting", "template.baking"));

        board.step(&base.name, "packages of base");
        tokio::time::advance(Duration::from_secs(30)).await;
        board.step(&base.name, "first boot");
        tokio::time::advance(Duration::from_secs(10)).await;
        let fault = only(&board).fault();
        assert_eq!(fault.text, "template base is being baked, 40 s so far (first boot); try again later");
        assert_eq!((fault.kind, fault.retry_after), (FaultKind::Busy, Some(RETRY_AFTER)));

        board.fail(&base.name);
        let fault = only(&board).fault();
        assert_eq!((fault.kind, fault.code, fault.retry_after), (FaultKind::Conflict, "template.bake_failed", None));
        assert!(fault.text.ends_with("its operator runs: pandastack template bake base"), "{}", fault.text);
        board.remove(&base.name);
        assert_eq!(board.pending(), []);
    }

    #[test]
    fn the_board_is_bounded() {
        let board = TemplateBakes::default();
        for number in 0..2 * PENDING_TEMPLATES_MAX {
            board.add(template(&format!("t{number}"), &[]));
        }
        assert_eq!(board.pending().len(), PENDING_TEMPLATES_MAX);
        // What is not on the board changes nothing.
        board.fail(&"unknown".parse().unwrap());
        assert!(board.pending().iter().all(|one| one.state == BakeState::Waiting));
    }
}
