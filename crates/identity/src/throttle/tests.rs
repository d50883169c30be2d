//! The throttle under tries, floods and changes of the clock.

use proptest::prelude::*;

use super::*;
use crate::testing::TestClock;

struct Setup {
    throttle: LoginThrottle,
    clock: Arc<TestClock>,
}

impl Setup {
    fn new() -> Self {
        Self::with(ThrottleSettings { address_failures_free: 1_000_000, ..ThrottleSettings::default() })
    }

    fn with(settings: ThrottleSettings) -> Self {
        let clock = Arc::new(TestClock::new());
        Self { throttle: LoginThrottle::new(settings, clock.clone()), clock }
    }

    /// Fails once, and returns how long the caller had to wait first.
    fn fail(&self, email: &str, address: &str) -> Duration {
        let wait = self.wait(email, address);
        self.clock.advance(wait);
        self.start(email, address).unwrap().failed();
        wait
    }

    fn wait(&self, email: &str, address: &str) -> Duration {
        match self.start(email, address) {
            Ok(attempt) => {
                attempt.undecided();
                Duration::ZERO
            }
            Err(throttled) => throttled.retry_after,
        }
    }

    fn start(&self, email: &str, address: &str) -> Result<LoginAttempt<'_>, Throttled> {
        self.throttle.start(&EmailAddress::parse(email).unwrap(), address.parse().unwrap())
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn delays_double_up_to_a_quarter_of_an_hour() {
    let setup = Setup::new();
    let waits: Vec<_> = (0..17).map(|_| setup.fail("a@b.c", "192.0.2.1").as_secs()).collect();
    assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
    assert_eq!(setup.wait("other@b.c", "192.0.2.1"), Duration::ZERO, "another account is not affected");
    assert_eq!(setup.wait("A@B.C", "198.51.100.7").as_secs(), 900, "the account is, from everywhere");
}

#[test]
fn a_success_clears_the_account() {
    let setup = Setup::new();
    for _ in 0..7 {
        setup.fail("a@b.c", "192.0.2.1");
    }
    setup.clock.advance(setup.wait("a@b.c", "192.0.2.1"));
    setup.start("a@b.c", "192.0.2.1").unwrap().succeeded();
    let waits: Vec<_> = (0..6).map(|_| setup.fail("a@b.c", "192.0.2.1").as_secs()).collect();
    assert_eq!(waits, [0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_success_does_not_clear_the_address() {
    let setup = Setup::with(ThrottleSettings::default());
    for number in 0..5 {
        assert_eq!(setup.fail(&format!("victim{number}@b.c"), "192.0.2.1"), Duration::ZERO);
    }
    assert_eq!(setup.wait("mallory@b.c", "192.0.2.1"), SECOND);
    setup.clock.advance(SECOND);
    setup.start("mallory@b.c", "192.0.2.1").unwrap().succeeded();
    assert_eq!(setup.fail("victim6@b.c", "192.0.2.1"), Duration::ZERO, "the success itself counts for nothing");
    assert_eq!(setup.wait("victim7@b.c", "192.0.2.1"), 2 * SECOND);
    assert_eq!(setup.wait("victim7@b.c", "192.0.2.2"), Duration::ZERO);
}

#[test]
fn tries_at_the_same_time_count() {
    let setup = Setup::new();
    let tries: Vec<_> = (0..5).map(|_| setup.start("a@b.c", "192.0.2.1").unwrap()).collect();
    assert_eq!(setup.wait("a@b.c", "192.0.2.1"), SECOND);
    drop(tries);
    assert_eq!(setup.wait("a@b.c", "192.0.2.1"), SECOND, "a dropped try stays counted");
}

#[test]
fn tries_without_a_result_of_ours_do_not_count() {
    let setup = Setup::new();
    for _ in 0..100 {
        setup.start("a@b.c", "192.0.2.1").unwrap().undecided();
    }
    assert_eq!(setup.throttle.lock().accounts.len(), 0);
}

#[test]
fn failures_are_forgotten() {
    let setup = Setup::new();
    for _ in 0..20 {
        setup.fail("a@b.c", "192.0.2.1");
    }
    setup.clock.advance(LOGIN_FAILURES_FORGOTTEN);
    let waits: Vec<_> = (0..6).map(|_| setup.fail("a@b.c", "192.0.2.1").as_secs()).collect();
    assert_eq!(waits, [0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_flood_takes_bounded_memory_and_forgets_the_oldest() {
    let setup = Setup::with(ThrottleSettings { accounts_max: 10, addresses_max: 20, ..ThrottleSettings::default() });
    for _ in 0..6 {
        setup.fail("old@b.c", "192.0.2.1");
        setup.fail("young@b.c", "192.0.2.2");
    }
    for number in 0..100 {
        setup.fail(&format!("flood{number}@b.c"), &format!("198.51.{number}.7"));
        // The last failure decides the age, not the first.
        if number % 5 == 0 {
            setup.fail("young@b.c", &format!("203.0.113.{number}"));
        }
        let counts = setup.throttle.lock();
        assert!(counts.accounts.len() <= 10 && counts.addresses.len() <= 20);
    }
    assert_eq!(setup.wait("old@b.c", "192.0.2.9"), Duration::ZERO);
    assert!(setup.wait("young@b.c", "192.0.2.9") > Duration::ZERO);
}

#[test]
fn one_subscriber_is_one_address() {
    let check = |one: &str, other: &str| network(one.parse().unwrap()) == network(other.parse().unwrap());
    assert!(check("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
    assert!(!check("2001:db8:1:2::1", "2001:db8:1:3::1"));
    assert!(check("::ffff:192.0.2.1", "192.0.2.1"));
    assert!(!check("192.0.2.1", "192.0.2.2"));
}

#[test]
fn a_clock_that_is_set_back_locks_nobody_out() {
    let setup = Setup::new();
    for _ in 0..20 {
        setup.fail("a@b.c", "192.0.2.1");
    }
    setup.clock.go_back(Duration::from_secs(30 * 86_400));
    assert_eq!(setup.wait("a@b.c", "192.0.2.1"), Duration::ZERO);
}

#[test]
fn the_answer_names_the_wait() {
    let throttled = Throttled { retry_after: Duration::from_millis(1500) };
    assert_eq!(throttled.to_string(), "too many failed logins; try again in 2s");
}

proptest! {
    /// Whatever happens, memory and waits stay within their bounds.
    #[test]
    fn bounds_hold(steps in prop::collection::vec((0..4_u8, 0..6_u8, 0..6_u8, 0..2000_u64), 0..200)) {
        let setup = Setup::with(ThrottleSettings { accounts_max: 3, addresses_max: 3, ..ThrottleSettings::default() });
        for (step, account, address, seconds) in steps {
            setup.clock.advance(Duration::from_secs(seconds));
            match (setup.start(&format!("u{account}@b.c"), &format!("192.0.2.{address}")), step) {
                (Ok(attempt), 0) => attempt.succeeded(),
                (Ok(attempt), 1) => attempt.undecided(),
                (Ok(attempt), _) => attempt.failed(),
                (Err(throttled), _) => prop_assert!(throttled.retry_after <= LOGIN_DELAY_MAX),
            }
            let counts = setup.throttle.lock();
            prop_assert!(counts.accounts.len() <= 3 && counts.addresses.len() <= 3);
        }
    }
}
