//! Tests of `egress`: the state of a gate, without a kernel.

use super::*;

const NAMED_FOR: NameTtlBounds = NameTtlBounds { floor: Duration::from_secs(60), ceiling: Duration::from_secs(3600) };

fn rules(texts: &[&str]) -> Vec<EgressRule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn only(texts: &[&str]) -> Egress {
    Egress::Only(rules(texts))
}

fn state(applied: AppliedEgress) -> GateState {
    GateState::new(applied)
}

fn found(last: u8, ttl: u64) -> ResolvedAddress {
    ResolvedAddress { address: Ipv4Addr::new(203, 0, 113, last), ttl: Duration::from_secs(ttl) }
}

/// Opens a name's addresses as `EgressGate::admit` does, without a kernel.
fn admit(state: &mut GateState, name: &str, found: &[ResolvedAddress], now: Instant) -> bool {
    if state.claim(name, found, NAMED_FOR, now) {
        return true;
    }
    assert!(state.wait(name, found));
    if let Some(batch) = state.batch(NAMED_FOR, now) {
        state.remember(batch, now);
    }
    state.opens(name, found, now)
}

#[test]
fn a_mark_is_the_lists_own() {
    assert_eq!(mark_of(&rules(&["a.example", "b.example"])), mark_of(&rules(&["b.example", "a.example", "b.example"])));
    assert_ne!(mark_of(&rules(&["a.example"])), mark_of(&rules(&["*.a.example"])));
    assert_ne!(mark_of(&[]), 0);
}

#[test]
fn nothing_is_answered_before_a_list_is_known() {
    let state = state(AppliedEgress::Unknown);
    assert!(!state.names("a.example") && !state.is(&Egress::Open));
    assert!(!state.opens("a.example", &[], Instant::now()));
}

#[test]
fn answers_are_open_for_their_bounded_time() {
    let now = Instant::now();
    let mut state = state(AppliedEgress::As(only(&["a.example"])));
    assert!(admit(&mut state, "a.example", &[found(1, 0)], now), "a TTL of zero still leaves time to connect");
    assert!(state.opens("a.example", &[found(1, 0)], now + NAMED_FOR.floor));
    assert!(!state.opens("a.example", &[found(1, 0)], now + NAMED_FOR.floor * 2));
    assert!(admit(&mut state, "a.example", &[found(2, 999_999)], now));
    assert!(!state.opens("a.example", &[found(2, 0)], now + NAMED_FOR.ceiling + NAMED_FOR.floor));
}

#[test]
fn the_same_answer_again_is_nothing_to_write() {
    let now = Instant::now();
    let mut state = state(AppliedEgress::As(only(&["a.example"])));
    assert!(admit(&mut state, "a.example", &[found(1, 60)], now));
    state.waiting.push(("a.example".to_owned(), vec![found(1, 60)]));
    assert!(state.batch(NAMED_FOR, now + NAMED_FOR.slack()).is_none());
    state.waiting.push(("a.example".to_owned(), vec![found(1, 60)]));
    assert!(state.batch(NAMED_FOR, now + NAMED_FOR.floor).is_some(), "later it must be written again");
}

#[test]
fn a_name_that_left_the_list_is_not_opened() {
    let now = Instant::now();
    let mut state = state(AppliedEgress::As(only(&["a.example"])));
    assert!(!admit(&mut state, "b.example", &[found(1, 60)], now));
    assert!(state.answers.is_empty());
    state.applied = AppliedEgress::As(Egress::Open);
    assert!(admit(&mut state, "b.example", &[found(1, 60)], now), "an open gate holds nothing back");
    assert!(state.answers.is_empty());
}

#[test]
fn a_new_list_keeps_what_its_names_stand_for() {
    let now = Instant::now();
    let mut state = state(AppliedEgress::As(only(&["a.example", "b.example"])));
    admit(&mut state, "a.example", &[found(1, 60), found(2, 3600)], now);
    admit(&mut state, "b.example", &[found(2, 60), found(3, 60)], now);
    let later = now + Duration::from_secs(600);
    let answers = state.listed(&rules(&["*.example", "198.51.100.0/24"]), later).answers.unwrap();
    assert_eq!(answers.named.keys().map(|address| address.octets()[3]).collect::<Vec<_>>(), [2]);
    assert_eq!(answers.kept.len(), 3, "connections may be older than the answers' time");
    let answers = state.listed(&rules(&["b.example"]), now).answers.unwrap();
    assert_eq!(answers.kept.iter().map(|address| address.octets()[3]).collect::<Vec<_>>(), [2, 3]);
    state.applied = AppliedEgress::Unknown;
    assert_eq!(state.listed(&rules(&["b.example"]), now).answers, None, "the kernel knows better");
}

#[test]
fn an_address_that_is_open_costs_no_write() {
    let now = Instant::now();
    let mut state = state(AppliedEgress::As(only(&["*.example"])));
    assert!(admit(&mut state, "a.example", &[found(1, 3600)], now));
    assert!(state.claim("b.example", &[found(1, 60)], NAMED_FOR, now), "another name led there");
    assert!(!state.claim("b.example", &[found(1, 60), found(2, 60)], NAMED_FOR, now));
    assert!(state.wait("b.example", &[found(1, 60), found(2, 60)]));
    let batch = state.batch(NAMED_FOR, now).unwrap();
    assert_eq!(batch.addresses.keys().collect::<Vec<_>>(), [&found(2, 0).address], "a longer time is not cut short");
    state.remember(batch, now);
    let answers = state.listed(&rules(&["b.example"]), now).answers.unwrap();
    assert_eq!(answers.named.len(), 2, "what a name led to is known although it was not written for it");
}

#[test]
fn a_full_set_takes_no_more_until_time_has_passed() {
    let now = Instant::now();
    let mut state = state(AppliedEgress::As(only(&["*.example"])));
    let address =
        |number: usize| ResolvedAddress { address: Ipv4Addr::from_bits(number as u32), ttl: Duration::from_secs(60) };
    for number in 0..NAMED_MAX {
        assert!(admit(&mut state, &format!("n{number}.example"), &[address(number)], now));
    }
    let (one_more, known) = ([address(NAMED_MAX)], [address(7)]);
    assert!(!admit(&mut state, "more.example", &one_more, now));
    assert!(state.names("more.example") && state.open.len() == NAMED_MAX);
    assert!(admit(&mut state, "known.example", &known, now), "what is open stays usable");
    assert!(admit(&mut state, "more.example", &one_more, now + NAMED_FOR.floor * 2));
}

#[test]
fn answers_that_wait_are_bounded() {
    let mut state = state(AppliedEgress::As(only(&["*.example"])));
    for _ in 0..NAMED_WAITING_MAX {
        assert!(state.wait("a.example", &[found(1, 60)]));
    }
    assert!(!state.wait("a.example", &[found(1, 60)]));
    assert!(state.batch(NAMED_FOR, Instant::now()).is_some(), "one write is for all of them");
    assert!(state.wait("a.example", &[found(1, 60)]));
}

#[test]
fn memory_is_bounded() {
    let now = Instant::now();
    let mut state = state(AppliedEgress::As(only(&["*.example"])));
    for number in 0..NAMED_MAX + 10 {
        admit(&mut state, &format!("n{number}.example"), &[found(1, 60)], now + Duration::from_millis(number as u64));
    }
    assert_eq!(state.answers.len(), NAMED_MAX);
    assert!(!state.answers.contains_key(&("n1.example".to_owned(), found(1, 0).address)), "the oldest go first");
}
