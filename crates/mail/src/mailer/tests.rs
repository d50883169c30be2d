//! Letters on their way to the stand-in for a mail server.

use std::time::Duration;

use super::*;
use crate::stand_in::{ReceivedLetter, SmtpFault, SmtpStandIn};

fn letter(number: usize) -> Letter {
    Letter::new("ada@example.com", format!("Letter {number}"), "Dear Ada,\n.\n..dots\nhttps://pandas.example/x\n")
        .unwrap()
}

fn subjects(letters: &[ReceivedLetter]) -> Vec<&str> {
    letters.iter().filter_map(|letter| letter.header("subject")).collect()
}

#[tokio::test]
async fn letters_arrive_by_every_kind_of_connection() {
    for security in [SmtpSecurity::StartTls, SmtpSecurity::Tls, SmtpSecurity::Plain] {
        let (server, scope) = (SmtpStandIn::start(security).await, Scope::new());
        let url = server.url().replace("://", "://ada:p%20w@");
        let settings = SmtpSettings::parse(&url, "PandaStack <noreply@pandas.example>").unwrap();
        let SmtpSettings { authority, .. } = server.settings();
        let mailer = Mailer::start(SmtpSettings { authority, ..settings }, &scope).unwrap();
        mailer.send(letter(1)).unwrap();
        let got = server.wait(1).await.remove(0);
        assert_eq!(
            (got.from.as_str(), got.to.as_slice()),
            ("noreply@pandas.example", &["ada@example.com".to_owned()][..])
        );
        assert_eq!(got.header("from"), Some("PandaStack <noreply@pandas.example>"));
        assert_eq!(got.text, "Dear Ada,\n.\n..dots\nhttps://pandas.example/x\n");
        assert_eq!(got.encrypted, security != SmtpSecurity::Plain);
        // "\0ada\0p w"
        assert_eq!(got.login.as_deref(), Some("AGFkYQBwIHc="));
        assert_eq!(scope.close(Duration::from_secs(60)).await, 0);
        server.stop().await;
    }
}

#[tokio::test]
async fn long_lines_and_other_letters_arrive_as_they_were() {
    let (server, scope) = (SmtpStandIn::start(SmtpSecurity::Plain).await, Scope::new());
    let mailer = Mailer::start(server.settings(), &scope).unwrap();
    let text = format!("Grüße = {}\n\nhttps://pandas.example/?a=b&c={}\n", "x ".repeat(60), "ab=3D".repeat(40));
    mailer.send(Letter::new("ada@example.com", "Grüße an alle ".repeat(10), text.clone()).unwrap()).unwrap();
    assert_eq!(server.wait(1).await[0].text, text);
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_gets_no_letter() {
    for security in [SmtpSecurity::StartTls, SmtpSecurity::Tls] {
        let (server, scope) = (SmtpStandIn::start(security).await, Scope::new());
        let settings = SmtpSettings { authority: None, pauses: Vec::new(), ..server.settings() };
        let worker =
            Worker { transport: transport(&settings).unwrap(), settings, waiting: Vec::new(), stop: scope.token() };
        let message = letter(1).message(&worker.settings.from, "1").unwrap();
        assert!(matches!(worker.try_once(message).await, Posting::Later(_)));
        assert_eq!(server.letters(), []);
    }
    // STARTTLS is required, not only used if offered.
    let server = SmtpStandIn::start(SmtpSecurity::Plain).await;
    let settings = SmtpSettings { security: SmtpSecurity::StartTls, ..server.settings() };
    let stop = Scope::new().token();
    let worker = Worker { transport: transport(&settings).unwrap(), settings, waiting: Vec::new(), stop };
    let message = letter(1).message(&worker.settings.from, "1").unwrap();
    assert!(matches!(worker.try_once(message).await, Posting::Later(_)));
    assert_eq!(server.letters(), []);
}

#[tokio::test]
async fn a_letter_is_tried_again_but_not_for_ever() {
    let (server, scope) = (SmtpStandIn::start(SmtpSecurity::Plain).await, Scope::new());
    let mailer = Mailer::start(server.settings(), &scope).unwrap();
    server.fail_next([SmtpFault::Refuse(451), SmtpFault::HangUp, SmtpFault::Refuse(421)]);
    mailer.send(letter(1)).unwrap();
    assert_eq!(subjects(&server.wait(1).await), ["Letter 1"]);
    // Four tries fail: dropped. A refusal for good is not tried again.
    server.fail_next([SmtpFault::Refuse(450); 4]);
    mailer.send(letter(2)).unwrap();
    while server.faults_left() > 0 {
        tokio::task::yield_now().await;
    }
    server.fail_next([SmtpFault::Refuse(550)]);
    mailer.send(letter(3)).unwrap();
    mailer.send(letter(4)).unwrap();
    assert_eq!(subjects(&server.wait(2).await), ["Letter 1", "Letter 4"]);
}

#[tokio::test]
async fn a_letter_that_waits_holds_up_no_other() {
    let (server, scope) = (SmtpStandIn::start(SmtpSecurity::Plain).await, Scope::new());
    let settings = server.settings().with_pauses(&[Duration::from_secs(3600)]);
    let mailer = Mailer::start(settings, &scope).unwrap();
    server.fail_next([SmtpFault::Refuse(451)]);
    mailer.send(letter(1)).unwrap();
    mailer.send(letter(2)).unwrap();
    assert_eq!(subjects(&server.wait(1).await), ["Letter 2"]);
    assert_eq!(scope.close(Duration::from_secs(60)).await, 0, "a waiting letter does not hold up the shutdown");
}

#[tokio::test]
async fn the_queue_is_bounded_and_sent_before_a_shutdown() {
    let (server, scope) = (SmtpStandIn::start(SmtpSecurity::Plain).await, Scope::new());
    let mailer = Mailer::start(server.settings(), &scope).unwrap();
    // The worker does not run before this test waits.
    for number in 0..LETTERS_QUEUED_MAX {
        assert_eq!(mailer.send(letter(number)), Ok(()), "{number}");
    }
    assert_eq!(mailer.send(letter(LETTERS_QUEUED_MAX)), Err(LetterQueueFull));
    assert_eq!(scope.close(Duration::from_secs(60)).await, 0);
    let arrived = server.letters().len();
    assert!((1..=LETTERS_QUEUED_MAX).contains(&arrived), "{arrived}");
    assert_eq!(mailer.send(letter(0)), Err(LetterQueueFull), "after the end there is no queue");
}
