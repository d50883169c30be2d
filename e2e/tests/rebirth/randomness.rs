//! Random numbers of siblings: the kernel's always differ, and those of programs' own generators
//! may be equal.

use pandastack_e2e::{python, run};
use pandastack_model::SandboxId;
use pandastack_testbed::Bed;
use pandastack_wire_fleet::HostPort;

use super::{all_agree, all_differ, ask, ask_all, out_all, with_resident};

/// Random numbers of a process that starts after the fork.
const FRESH: &str = "
import os, random, secrets, ssl, uuid
print(open('/dev/urandom', 'rb').read(16).hex())
print(os.getrandom(16).hex())
print(open('/proc/sys/kernel/random/uuid').read().strip())
print(uuid.uuid4())
print(secrets.token_hex(16))
print(random.random())
print(ssl.RAND_bytes(16).hex())
received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
try: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(received, sent, server_hostname='example.org').do_handshake()
except ssl.SSLWantReadError: pass
print(sent.read()[11:43].hex())
";

/// Kernel random numbers in a process that started before the fork.
const KERNELS: [&str; 5] =
    ["os.urandom(16).hex()", "os.getrandom(16).hex()", "uuid.uuid4()", "secrets.token_hex(16)", "generation()"];

/// Generators that a process had seeded before the fork.
const OWN: [&str; 3] = ["ssl.RAND_bytes(16).hex()", "client_random()", "random.random()"];

async fn family(bed: &Bed, parent: SandboxId, children: usize) -> Vec<SandboxId> {
    let mut family = bed.fork(parent, children).await.unwrap();
    family.push(parent);
    family
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_seeded_before_a_fork_goes_on_alike_until_it_seeds_anew() {
    with_resident(async |bed, parent| {
        let family = family(bed, parent, 3).await;
        for expression in OWN {
            all_agree(expression, &ask_all(bed, &family, expression).await);
        }
        // The renewal that the document tells programs to do.
        ask_all(bed, &family, "renew()").await;
        for expression in OWN {
            all_differ(expression, &ask_all(bed, &family, expression).await);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_seeds_itself_anew_an_hour_after_its_last_seed() {
    with_resident(async |bed, parent| {
        let family = family(bed, parent, 3).await;
        out_all(bed, &family, "date -s @$(($(date +%s) + 600))").await;
        for expression in &OWN[..2] {
            all_agree(expression, &ask_all(bed, &family, expression).await);
        }
        out_all(bed, &family, "date -s @$(($(date +%s) + 3600))").await;
        for expression in &OWN[..2] {
            all_differ(expression, &ask_all(bed, &family, expression).await);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_generation_file_changes_with_every_life_and_with_nothing_else() {
    with_resident(async |bed, parent| {
        let first = ask(bed, parent, "generation()").await;
        assert!(!first.is_empty());
        let family = family(bed, parent, 2).await;
        let generations = out_all(bed, &family, "cat /run/pandastack/generation").await;
        all_differ("generation", &generations);
        assert_eq!(generations.last(), Some(&first), "a source goes on with its life");
        bed.host.pause(parent).await.unwrap();
        bed.host.resume(parent).await.unwrap();
        assert_eq!(ask(bed, parent, "generation()").await, first, "a resume is no new life");
        bed.host.sleep(parent).await.unwrap();
        bed.host.wake(parent).await.unwrap();
        assert_ne!(ask(bed, parent, "generation()").await, first, "a wake is one");
        // Every user may read it.
        let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups cat /run/pandastack/generation";
        assert_eq!(bed.out(parent, nobody).await, ask(bed, parent, "generation()").await);
    })
    .await;
}

/// Eight machines at once.
mod deep {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn eight_siblings_draw_nothing_equal_from_the_kernel() {
        with_resident(async |bed, parent| {
            let family = family(bed, parent, 8).await;
            for expression in KERNELS {
                all_differ(expression, &ask_all(bed, &family, expression).await);
            }
            // OpenSSL detects a new process by its id.
            let drawn = ask_all(bed, &family, "in_a_child(client_random)").await;
            all_differ("a TLS client's random in a child of a seeded process", &drawn);
            let drawn = futures_util::future::join_all(family.iter().map(|id| run(bed, *id, python(FRESH)))).await;
            let drawn: Vec<Vec<String>> =
                drawn.iter().map(|ran| ran.out().lines().map(str::to_owned).collect()).collect();
            assert!(drawn.iter().all(|lines| lines.len() == 8), "{drawn:?}");
            for line in 0..8 {
                let values: Vec<String> = drawn.iter().map(|lines| lines[line].clone()).collect();
                all_differ(&format!("line {line} of a new process"), &values);
            }
        })
        .await;
    }
}
