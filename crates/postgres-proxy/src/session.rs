//! Knows whether a query runs on a connection, from the messages of both sides.
//!
//! Clients may send several queries at once, and each gets its own ReadyForQuery. So the asked ones
//! are counted: a connection is idle when the last one is answered.

use crate::{
    databases::{QueryActivity, QueryState},
    frames::{FrameScan, SeenMessage},
};

/// The state of one connection after its startup message.
pub struct QueryTracker {
    activity: Box<dyn QueryActivity>,
    state: QueryState,
    /// Messages of the client that a ReadyForQuery will answer.
    unanswered: u64,
    client: FrameScan,
    backend: FrameScan,
}

impl QueryTracker {
    pub fn new(activity: Box<dyn QueryActivity>) -> Self {
        let (client, backend) = (FrameScan::default(), FrameScan::default());
        Self { activity, state: QueryState::Running, unanswered: 0, client, backend }
    }

    /// Bytes go from the client to the database. Told before they are written, so that their
    /// answer comes later.
    pub fn client_sends(&mut self, bytes: &[u8]) {
        let unanswered = &mut self.unanswered;
        self.client.scan(bytes, |frame| {
            // Query, Sync and FunctionCall.
            if let SeenMessage::Began(b'Q' | b'S' | b'F') = frame {
                *unanswered += 1;
            }
        });
        self.change(QueryState::Running);
    }

    /// Bytes go from the database to the client.
    pub fn backend_sends(&mut self, bytes: &[u8]) {
        let (mut state, unanswered) = (self.state, &mut self.unanswered);
        self.backend.scan(bytes, |frame| match frame {
            SeenMessage::Ready(status) => {
                *unanswered = unanswered.saturating_sub(1);
                state = match (*unanswered, status) {
                    (0, b'I') => QueryState::Idle,
                    (0, _) => QueryState::InTransaction,
                    (_, _) => QueryState::Running,
                };
            }
            // During a copy the database skips each Sync that was sent before the copy's end.
            SeenMessage::Began(b'G' | b'W') => (*unanswered, state) = (0, QueryState::Running),
            // Notices, notifications and changed settings also come while nothing runs.
            SeenMessage::Began(b'N' | b'A' | b'S') => {}
            SeenMessage::Began(_) => state = QueryState::Running,
        });
        self.change(state);
    }

    /// Tells whether a message of our own may follow what the database sent.
    pub fn is_backend_between_messages(&self) -> bool {
        self.backend.is_between_messages()
    }

    fn change(&mut self, state: QueryState) {
        if self.state != state {
            self.state = state;
            self.activity.changed(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::frames::tests::message;

    #[derive(Clone, Default)]
    struct HeardStates(Arc<Mutex<Vec<QueryState>>>);

    impl QueryActivity for HeardStates {
        fn changed(&self, state: QueryState) {
            self.0.lock().unwrap().push(state);
        }
    }

    /// Plays messages: `>` goes to the database, `<` comes from it; `i` and `t` are ReadyForQuery.
    fn heard(play: &[(char, &[u8])]) -> Vec<QueryState> {
        let heard = HeardStates::default();
        let mut session = QueryTracker::new(Box::new(heard.clone()));
        session.backend_sends(&message(b'Z', b"I"));
        for (way, kinds) in play {
            let bytes: Vec<u8> = kinds
                .iter()
                .flat_map(|kind| match kind {
                    b'i' => message(b'Z', b"I"),
                    b't' => message(b'Z', b"T"),
                    kind => message(*kind, b""),
                })
                .collect();
            if *way == '>' { session.client_sends(&bytes) } else { session.backend_sends(&bytes) }
        }
        let states = heard.0.lock().unwrap().clone();
        assert_eq!(states[0], QueryState::Idle, "the login is over");
        states[1..].to_vec()
    }

    use QueryState::{Idle, InTransaction, Running};

    #[test]
    fn a_query_runs_until_its_answer_ends() {
        assert_eq!(heard(&[('>', b"Q"), ('<', b"TDDC"), ('<', b"i")]), [Running, Idle]);
        assert_eq!(
            heard(&[('>', b"Q"), ('<', b"Ct"), ('>', b"Q"), ('<', b"Ci")]),
            [Running, InTransaction, Running, Idle]
        );
        assert_eq!(heard(&[('>', b"PBDE"), ('>', b"S"), ('<', b"12TDCi")]), [Running, Idle]);
    }

    #[test]
    fn pipelined_queries_run_until_the_last_answer() {
        assert_eq!(heard(&[('>', b"PBESPBES"), ('<', b"12Ci"), ('<', b"12Ci")]), [Running, Idle]);
        assert_eq!(heard(&[('>', b"QQQ"), ('<', b"Ci"), ('<', b"Ci"), ('<', b"Ei")]), [Running, Idle]);
    }

    #[test]
    fn a_copy_ends_idle_whichever_way_it_was_asked_for() {
        assert_eq!(heard(&[('>', b"Q"), ('<', b"G"), ('>', b"ddc"), ('<', b"Ci")]), [Running, Idle]);
        assert_eq!(heard(&[('>', b"PBES"), ('<', b"12G"), ('>', b"ddcS"), ('<', b"Ci")]), [Running, Idle]);
        assert_eq!(heard(&[('>', b"PBEddcS"), ('<', b"12G"), ('<', b"Ci")]), [Running, Idle]);
    }

    #[test]
    fn a_notice_while_idle_changes_nothing() {
        assert_eq!(heard(&[('<', b"NAS")]), []);
        assert_eq!(heard(&[('<', b"D"), ('<', b"i")]), [Running, Idle]);
    }
}
