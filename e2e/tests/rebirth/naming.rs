//! The identity of a child: unique, at the same address.

use super::{all_agree, all_differ, ask_all, opens, out_all, secret_of, with_resident};

#[tokio::test(flavor = "multi_thread")]
async fn every_child_has_a_name_an_id_and_a_machine_id_of_its_own() {
    with_resident(async |bed, parent| {
        let names = ["hostname", "cat /etc/hostname", "cat /etc/machine-id", "echo $PANDASTACK_SANDBOX_ID"];
        let boot = "cat /proc/sys/kernel/random/boot_id";
        bed.out(parent, boot).await;
        let mut before = Vec::new();
        for command in names {
            before.push(bed.out(parent, command).await);
        }
        let mut family = bed.fork(parent, 3).await.unwrap();
        family.push(parent);
        for (command, before) in names.into_iter().zip(before) {
            let said = out_all(bed, &family, command).await;
            all_differ(command, &said);
            assert_eq!(said.last(), Some(&before), "a source stays who it is");
        }
        let ids: Vec<String> = family.iter().map(ToString::to_string).collect();
        assert_eq!(out_all(bed, &family, "echo $PANDASTACK_SANDBOX_ID").await, ids);
        // The names resolve to the sandbox itself.
        all_agree(
            "own name",
            &out_all(bed, &family, "getent ahostsv4 $(hostname) | head -n 1 | cut -d ' ' -f 1").await,
        );
        all_agree("the boot, which they have in common", &out_all(bed, &family, boot).await);
        // A process keeps the environment from its start.
        let kept = ask_all(bed, &family, "os.environ['PANDASTACK_SANDBOX_ID']").await;
        assert!(kept.iter().all(|id| *id == parent.to_string()), "{kept:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn siblings_have_one_address_and_are_reached_apart() {
    with_resident(async |bed, parent| {
        let mut family = bed.fork(parent, 2).await.unwrap();
        family.push(parent);
        for command in ["ip -4 -o addr show dev eth0", "cat /sys/class/net/eth0/address"] {
            all_agree(command, &out_all(bed, &family, command).await);
        }
        // All residents listen on the same address and port. Each connection reaches the right one.
        let named = ask_all(bed, &family, "socket.gethostname()").await;
        assert_eq!(named, out_all(bed, &family, "hostname").await);
        all_differ("hostname", &named);
        // Servers that start later do not conflict either.
        let serve = "python3 -c 'import socket,os\ns=socket.create_server((\"0.0.0.0\",8200))\nif os.fork(): \
            os._exit(0)\nos.setsid()\nos.dup2(os.open(\"/dev/null\",2),1)\nos.dup2(1,2)\nwhile 1: c,_=s.accept(); \
            c.sendall(socket.gethostname().encode()); c.close()'";
        out_all(bed, &family, serve).await;
        for (id, name) in family.iter().zip(named) {
            let mut said = String::new();
            std::io::Read::read_to_string(&mut super::dial(bed, *id, 8200).await, &mut said).unwrap();
            assert_eq!(said, name);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_opens_another_sandboxs_agent() {
    with_resident(async |bed, parent| {
        let before = secret_of(bed, parent).await;
        let mut family = bed.fork(parent, 2).await.unwrap();
        family.push(parent);
        let mut secrets = Vec::new();
        for id in &family {
            secrets.push(secret_of(bed, *id).await);
        }
        assert_eq!(secrets.last(), Some(&before), "a source keeps its secret");
        for (owner, secret) in secrets.iter().enumerate() {
            for (other, id) in family.iter().enumerate() {
                assert_eq!(opens(bed, *id, secret).await, owner == other, "secret {owner} at agent {other}");
            }
        }
    })
    .await;
}
